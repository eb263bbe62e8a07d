"""The same work done by this project and by its peers, side by side: `nox -s bench`.

Everything a peer's process imports (all but `run`, `summary`, `plots`, `page` and the command line)
needs numpy alone, beside the peer itself.
"""

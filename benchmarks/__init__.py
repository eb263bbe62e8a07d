"""Benchmarks of this project: against its peers (`nox -s bench`) and its earlier commits (`nox -s compare`).

Modules that a peer's process imports (all but `run`, `compare`, `summary`, `plots`, `page` and the command
line) need only numpy and the peer.
"""

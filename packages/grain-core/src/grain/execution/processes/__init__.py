"""Worker processes that compute tasks, and the shared memory in which their results return.

This package gives tasks and results no meaning. The consuming process imports `pool`, a worker imports
`worker`; neither loads modules that only the other side needs.
"""

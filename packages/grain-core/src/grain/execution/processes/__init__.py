"""Worker processes that compute tasks, and the shared memory in which their results come back.

This room knows nothing of what a task or a result means. Its door is `pool`; a worker comes in by
`worker` and need not load what only the other side uses.
"""

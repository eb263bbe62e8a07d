"""Execution of pipelines: plans, executors, worker sessions, threads.

`mp_prefetch` plans a pipeline, opens a session with the workers of an executor, and builds iterators of
the plan:

    dataset graph --plan()--> Plan --build(plan, session)--> iterators in the consumer's process
                                                                 |
     fused part       FusedIterator   -- BlockTask -->           |          --> FusedStage        \
     functions        OffloadIterator -- chunk of elements -->   WorkerSession  ElementFunctions   > in
     workers stream           StreamIterator  -- next chunk -->          |          --> RemoteStream
     / ordered rest     the node's iterator, in the consumer       |
                                                                 v
                                    Executor.open(job) -> TaskPool: submit, result, discard
                                                                 |
                        processes: WorkerPool -- sockets and shared-memory slots --> Worker: TaskDispatcher

Results return through the same path; iterators deliver them in order. Without workers, map datasets are
read through `AdaptiveReader`, in the consumer's thread or in `BlockThreads`, and any iterator can be
prefetched by one thread (`ThreadPrefetchDatasetIterator`).
"""

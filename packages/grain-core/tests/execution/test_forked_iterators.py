"""Iterators that threads or workers read, in a fork of their process: an error says what to do, no hang."""

from __future__ import annotations

from typing import Any

import pytest

from ..helpers.processes import finish

_CHILD = """
class Slow:
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        time.sleep(0.002)
        return i

def slow():
    return MapDataset.source(Slow())

def kinds():
    read = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)
    inline = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    yield "reading threads", slow().to_iter_dataset(read)
    yield "prefetch", grain.experimental.ThreadPrefetchIterDataset(
        slow().to_iter_dataset(inline), prefetch_buffer_size=4)
    yield "multithread_prefetch", grain.experimental.multithread_prefetch(
        slow().to_iter_dataset(inline), num_threads=2, buffer_size=4)
    yield "interleave", grain.experimental.InterleaveIterDataset(
        [slow().to_iter_dataset(read) for _ in range(8)], cycle_length=2)
    yield "worker processes", slow().to_iter_dataset(inline).mp_prefetch(
        grain.MultiprocessingOptions(num_workers=1))

for name, dataset in kinds():
    if name != sys.argv[1]:
        continue
    iterator = iter(dataset)
    for _ in range(30):
        next(iterator)
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        next(iterator)
        iterator.close()
        print(name, code)
    else:
        error = None
        try:
            for _ in range(900):
                next(iterator)
        except RuntimeError as raised:
            error = str(raised)
        iterator.close()
        assert error is not None and "Make a new iterator in the child" in error, error
        assert len([next(it) for it in [iter(dataset)]]) == 1
        sys.exit(0)
"""


@pytest.mark.parametrize(
    "kind",
    ["reading threads", "prefetch", "multithread_prefetch", "interleave", "worker processes"],
)
def test_an_iterator_that_is_read_by_others_refuses_to_continue_in_a_fork(
    script: Any, kind: str
) -> None:
    process = script(_CHILD, kind)
    assert finish(process) == (0, f"{kind} 0\n", "")

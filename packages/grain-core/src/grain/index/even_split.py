"""Even splits of a range of records over shards."""

from __future__ import annotations


def even_split(length: int, shard_index: int, shard_count: int, drop_remainder: bool) -> range:
    """Return the consecutive part of `range(length)` that a shard reads.

    All shards are equally long with `drop_remainder`; otherwise the first ones get one record more.

    >>> [len(even_split(10, i, 3, drop_remainder=False)) for i in range(3)]
    [4, 3, 3]
    """
    size, remainder = divmod(length, shard_count)
    if drop_remainder:
        return range(shard_index * size, (shard_index + 1) * size)
    start = shard_index * size + min(shard_index, remainder)
    return range(start, start + size + (1 if shard_index < remainder else 0))


def global_steps(length: int, global_size: int, keep_rest: bool) -> int:
    """Return the number of global batches (of all shards together) that `length` elements make.

    >>> global_steps(10, 4, keep_rest=False), global_steps(10, 4, keep_rest=True)
    (2, 3)
    """
    whole, rest = divmod(length, global_size)
    return whole + (1 if rest and keep_rest else 0)


def global_share(seen: int, length: int, shard_index: int, shard_count: int) -> slice:
    """Return which of the next `length` elements of a global batch go to a shard.

    Element `i` of a global batch goes to shard `i % shard_count`; `seen` elements came before.

    >>> list(range(10))[global_share(0, 10, 1, 4)], list(range(3, 10))[global_share(3, 7, 1, 4)]
    ([1, 5, 9], [5, 9])
    """
    return slice((shard_index - seen) % shard_count, length, shard_count)

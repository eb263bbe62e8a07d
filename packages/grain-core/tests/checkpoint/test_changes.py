"""A checkpoint of a changed pipeline is refused with a readable difference, or allowed by name."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.checkpoint import ChangedPipelineError, CheckpointHandler, allow_changes
from grain.dataset.fingerprint.changes import difference


@dataclasses.dataclass
class Add(grain.transforms.Map):
    amount: int

    def map(self, element):
        return element + self.amount


class Times(grain.transforms.Map):
    """A transformation without a `__repr__`: its text is its class and its public attributes."""

    def __init__(self, factor):
        self.factor = factor

    def map(self, element):
        return element * self.factor


class Files:
    """A source of files."""

    def __init__(self, *paths):
        self.paths = list(paths)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


class Own(grain.MapDataset):
    """A user's own source."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index

    def __str__(self):
        return f"Own(size={self.size})"


def numbers(size=8):
    return grain.MapDataset.range(size)


def even(x):
    return x % 2 == 0


def odd(x):
    return x % 2 == 1


def jitter(x, rng):
    return x + rng.random()


# The pipeline before and after, the kind of the change, and a line before and after.
CHANGES = {
    "longer range": (numbers(8), numbers(9), "source", "range(0, 8)", "range(0, 9)"),
    "longer list": (
        grain.MapDataset.source([0, 1]),
        grain.MapDataset.source([0, 1, 2]),
        "source",
        "list of 2",
        "list of 3",
    ),
    "array of another shape": (
        grain.MapDataset.source(np.zeros((4, 2))),
        grain.MapDataset.source(np.zeros((4, 3))),
        "source",
        "array(shape=(4, 2), dtype=float64)",
        "array(shape=(4, 3), dtype=float64)",
    ),
    "another file": (
        grain.MapDataset.source(Files("a", "b")),
        grain.MapDataset.source(Files("a", "c")),
        "file",
        "file: b",
        "file: c",
    ),
    "own source": (Own(3), Own(4), "source", "Own(size=3), 3 records", "Own(size=4), 4 records"),
    "operation added": (numbers(), numbers().map(Add(1)), "operation", None, "Add(amount=1)"),
    "operation removed": (
        numbers().shuffle(seed=1).filter(even),
        numbers().filter(even),
        "operation",
        "shuffle(seed=1)",
        None,
    ),
    "operations in another order": (
        numbers().map(Add(1)).map(Times(2)),
        numbers().map(Times(2)).map(Add(1)),
        "operation",
        "Add(amount=1)",
        "Add(amount=1)",
    ),
    "other argument": (
        numbers().map(Add(1)),
        numbers().map(Add(2)),
        "operation",
        "Add(amount=1)",
        "Add(amount=2)",
    ),
    "other public attribute": (
        numbers().map(Times(1)),
        numbers().map(Times(2)),
        "operation",
        "Times(factor=1)",
        "Times(factor=2)",
    ),
    "other function": (
        numbers().filter(even),
        numbers().filter(odd),
        "operation",
        "filter(transform=even)",
        "filter(transform=odd)",
    ),
    "other seed": (
        numbers().seed(1).shuffle(),
        numbers().seed(2).shuffle(),
        "operation",
        "seed(seed=1)",
        "seed(seed=2)",
    ),
    "other seed of a random map": (
        numbers().random_map(jitter, seed=1),
        numbers().random_map(jitter, seed=2),
        "operation",
        "seed=1",
        "seed=2",
    ),
    "other batch size": (
        numbers().batch(2),
        numbers().batch(4),
        "operation",
        "batch(batch_size=2)",
        "batch(batch_size=4)",
    ),
    "remainder": (
        numbers().batch(3),
        numbers().batch(3, drop_remainder=True),
        "operation",
        "batch(batch_size=3)",
        "batch(batch_size=3, drop_remainder=True)",
    ),
    "other slice": (
        numbers()[0::2],
        numbers()[1::2],
        "operation",
        "slice(step=2)",
        "slice(start=1, step=2)",
    ),
    "other picks": (numbers().slice([1, 2]), numbers().slice([1, 3]), "operation", "", ""),
    "other repetition": (
        numbers().repeat(2),
        numbers().repeat(3),
        "operation",
        "repeat(num_epochs=2)",
        "repeat(num_epochs=3)",
    ),
    "other weights by index": (
        grain.MapDataset.mix([numbers(), numbers()], [1, 1]),
        grain.MapDataset.mix([numbers(), numbers()], [1, 3]),
        "operation",
        "mix(weights=[100, 100])",
        "mix(weights=[100, 300])",
    ),
    "another one concatenated": (
        grain.MapDataset.concatenate([numbers(), numbers()]),
        grain.MapDataset.concatenate([numbers(), numbers(9)]),
        "source",
        "[1] source: range(0, 8)",
        "[1] source: range(0, 9)",
    ),
    "other weights in order": (
        grain.IterDataset.mix([numbers().to_iter_dataset()] * 2, [1, 1]),
        grain.IterDataset.mix([numbers().to_iter_dataset()] * 2, [1, 3]),
        "operation",
        "mix(weights=[100, 100])",
        "mix(weights=[100, 300])",
    ),
    "other window": (
        numbers().to_iter_dataset().window_shuffle(2, seed=1),
        numbers().to_iter_dataset().window_shuffle(4, seed=1),
        "operation",
        "window_shuffle(window_size=2, seed=1)",
        "window_shuffle(window_size=4, seed=1)",
    ),
    "another one interleaved": (
        grain.experimental.InterleaveIterDataset([numbers()] * 3, cycle_length=2),
        grain.experimental.InterleaveIterDataset([numbers(), numbers(), Own(8)], cycle_length=2),
        "source",
        "[2] source: range(0, 8)",
        "[2] source: Own(size=8), 8 records",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_pipeline_is_refused_with_the_lines_that_differ(tmp_path, name):
    saved, present, kind, before, after = CHANGES[name]
    with iter(saved) as iterator:
        CheckpointHandler().save(tmp_path, iterator)
    with iter(present) as iterator:
        with pytest.raises(ChangedPipelineError) as caught:
            CheckpointHandler().restore(tmp_path, iterator)
        lines = str(caught.value).splitlines()
        assert before is None or any(line.startswith("  - ") and before in line for line in lines)
        assert after is None or any(line.startswith("  + ") and after in line for line in lines)
        assert caught.value.kinds == (kind,)
        assert f'allow=("{kind}",)' in str(caught.value)
        # The advice of the message works.
        CheckpointHandler().restore(tmp_path, iterator, allow=caught.value.kinds)


@pytest.mark.parametrize("name", CHANGES)
def test_an_equal_pipeline_is_restored(tmp_path, name):
    for ds in CHANGES[name][:2]:
        with iter(ds) as iterator, iter(ds) as fresh:
            next(iterator)
            CheckpointHandler().save(tmp_path, iterator)
            CheckpointHandler().restore(tmp_path, fresh)
            assert fresh.get_state() == iterator.get_state()
            assert fresh.get_state() != iter(ds).get_state()


def test_threads_and_workers_are_no_change(tmp_path):
    ds = numbers().shuffle(seed=1)
    variants = [
        ds.to_iter_dataset(),
        ds.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=3)),
        ds.to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(num_workers=1)),
        grain.experimental.ThreadPrefetchIterDataset(ds.to_iter_dataset(), prefetch_buffer_size=2),
        grain.experimental.WithOptionsIterDataset(
            ds.to_iter_dataset(), grain.experimental.DatasetOptions()
        ),
    ]
    with iter(variants[2]) as iterator:
        next(iterator)
        CheckpointHandler().save(tmp_path, iterator)
    for variant in variants:
        with iter(variant) as iterator:
            assert CheckpointHandler().restore(tmp_path, iterator).get_state() == {"next_index": 1}


def test_a_change_that_is_not_allowed_is_refused_beside_one_that_is(tmp_path):
    CheckpointHandler().save(tmp_path, iter(numbers().batch(2)))
    changed = iter(numbers(9).batch(3))
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(tmp_path, changed, allow=("source",))
    assert caught.value.kinds == ("operation",)
    CheckpointHandler().restore(tmp_path, changed, allow=("source", "operation"))


def test_an_open_slice_of_a_longer_source_is_the_same_operation(tmp_path):
    saved = iter(numbers(8)[1::2])
    next(saved)
    CheckpointHandler().save(tmp_path, saved)
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(tmp_path, iter(numbers(9)[1::2]))
    assert caught.value.kinds == ("source",)
    restored = CheckpointHandler().restore(tmp_path, iter(numbers(9)[1::2]), allow=("source",))
    assert list(restored) == [3, 5, 7]


def test_a_refused_checkpoint_leaves_the_iterator_where_it_was(tmp_path):
    CheckpointHandler().save(tmp_path, iter(numbers(9)))
    iterator = iter(numbers(8))
    next(iterator)
    with pytest.raises(ChangedPipelineError):
        CheckpointHandler().restore(tmp_path, iterator)
    assert next(iterator) == 1


def test_only_changes_that_there_are_can_be_allowed(tmp_path):
    iterator = iter(numbers())
    CheckpointHandler().save(tmp_path, iterator)
    with pytest.raises(ValueError, match=r"can be allowed are source, file, .*; got \['sauce'\]"):
        CheckpointHandler().restore(tmp_path, iterator, allow=("sauce",))
    CheckpointHandler().restore(tmp_path, iter(numbers(9)), allow="source")


def test_a_state_alone_is_restored_without_a_comparison(tmp_path):
    saved = iter(numbers(8))
    next(saved)
    CheckpointHandler().save(tmp_path, saved)
    (tmp_path / "pipeline_0-of-1.txt").unlink()
    restored = CheckpointHandler().restore(tmp_path, iter(numbers(9)))
    assert list(restored) == list(range(1, 9))


def test_a_state_of_another_shape_shows_both(tmp_path):
    with iter(numbers().to_iter_dataset().window_shuffle(2, seed=1)) as iterator:
        CheckpointHandler().save(tmp_path, iterator)
    (tmp_path / "pipeline_0-of-1.txt").unlink()
    iterator = iter(numbers())
    next(iterator)
    with pytest.raises(KeyError) as caught:
        CheckpointHandler().restore(tmp_path, iterator)
    notes = "\n".join(caught.value.__notes__)
    assert "pos_in_window" in notes
    assert "{'next_index': 1}" in notes
    assert next(iterator) == 1


def test_a_fingerprint_that_cannot_be_parsed_says_so(tmp_path):
    CheckpointHandler().save(tmp_path, iter(numbers()))
    (tmp_path / "pipeline_0-of-1.txt").write_text("nonsense")
    with pytest.raises(ValueError, match="`kind: text`, got 'nonsense'"):
        CheckpointHandler().restore(tmp_path, iter(numbers()))


def test_many_files_are_one_line(tmp_path):
    paths = [f"part-{number}" for number in range(1000)]
    CheckpointHandler().save(tmp_path, iter(grain.MapDataset.source(Files(*paths))))
    assert len((tmp_path / "pipeline_0-of-1.txt").read_text().splitlines()) == 3
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(
            tmp_path, iter(grain.MapDataset.source(Files(*paths[:500], "x", *paths[501:])))
        )
    assert caught.value.kinds == ("file",)


def test_a_function_may_move_to_another_line_and_an_object_to_another_address(tmp_path):
    def made_on(line):
        names = {"__name__": "user", "grain": grain}
        exec("\n" * line + "class Source(list): __repr__ = object.__repr__\nf = lambda x: x", names)
        return grain.MapDataset.source(names["Source"]([1, 2])).map(names["f"])

    class Odd:
        """Its text has its address in it."""

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index

        def __repr__(self):
            return object.__repr__(self)

    assert made_on(1).fingerprint() == made_on(9).fingerprint()
    saved = iter(made_on(1))
    next(saved)
    CheckpointHandler().save(tmp_path, saved)
    assert list(CheckpointHandler().restore(tmp_path, iter(made_on(9)))) == [2]
    kept = Odd()
    CheckpointHandler().save(tmp_path, iter(grain.MapDataset.source(kept)))
    restored = CheckpointHandler().restore(tmp_path, iter(grain.MapDataset.source(Odd())))
    assert list(restored) == [0, 1, 2]


# --- DataLoader ----------------------------------------------------------------------------------


def loader(records=8, seed=1, operations=(), shard_options=None):
    return grain.DataLoader(
        data_source=list(range(records)) if isinstance(records, int) else records,
        sampler=grain.samplers.IndexSampler(8, shuffle=True, seed=seed, num_epochs=1),
        operations=list(operations),
        shard_options=shard_options or grain.sharding.NoSharding(),
    )


LOADERS = {
    "sampler": (loader(seed=2), ("sampler",), "seed=1", "seed=2"),
    "longer source": (loader(records=9), ("source",), "list of 8", "list of 9"),
    "operation": (loader(operations=[Add(1)]), ("operation",), None, "Add(amount=1)"),
    "shard": (
        loader(shard_options=grain.sharding.ShardOptions(0, 2)),
        ("shard",),
        "shard: 0 of 1",
        "shard: 0 of 2",
    ),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_changed_loader_is_refused_with_the_lines_that_differ(tmp_path, name):
    changed, kinds, before, after = LOADERS[name]
    CheckpointHandler().save(tmp_path, iter(loader()))
    with pytest.raises(ChangedPipelineError) as caught:
        CheckpointHandler().restore(tmp_path, iter(changed))
    assert caught.value.kinds == kinds
    lines = str(caught.value).splitlines()
    assert before is None or any(line.startswith("  - ") and before in line for line in lines)
    assert any(line.startswith("  + ") and after in line for line in lines)
    CheckpointHandler().restore(tmp_path, iter(changed), allow=kinds)


def test_a_loaders_state_alone_shows_the_arguments_that_differ():
    state = iter(loader()).get_state()
    with pytest.raises(
        ChangedPipelineError, match="Sampler in checkpoint does not match"
    ) as caught:
        iter(loader(seed=2)).set_state(state)
    lines = str(caught.value).splitlines()
    assert "  - seed=1" in lines
    assert "  + seed=2" in lines
    assert caught.value.kinds == ("sampler",)


def test_a_loaders_changed_source_alone_is_an_error():
    state = iter(loader()).get_state()
    with pytest.raises(ChangedPipelineError, match="DataSource in checkpoint does not") as caught:
        iter(loader(records=range(8))).set_state(state)
    assert caught.value.kinds == ("source",)


def test_a_loaders_change_is_allowed_by_name_and_resumes_in_the_new_order():
    saved = iter(loader())
    next(saved), next(saved)
    changed = iter(loader(seed=2))
    changed.set_state(saved.get_state(), allow=("sampler",))
    assert list(changed) == list(loader(seed=2))[2:]
    other = iter(loader(records=range(8)))
    with allow_changes("source"):
        other.set_state(saved.get_state())
    assert list(other) == list(saved)
    with pytest.raises(ChangedPipelineError):
        other.set_state(iter(loader()).get_state())


# --- the names that PyTorch uses -----------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: numbers().batch(2), loader], ids=["dataset", "loader"])
def test_a_state_dict_survives_json_and_restores(make):
    iterator = iter(make())
    next(iterator)
    saved = json.loads(json.dumps(iterator.state_dict()))
    fresh = iter(make())
    fresh.load_state_dict(saved)
    assert [np.asarray(x).tolist() for x in fresh] == [np.asarray(x).tolist() for x in iterator]


def test_a_state_dict_of_another_pipeline_is_refused_or_allowed():
    saved = iter(numbers(8)).state_dict()
    assert saved == {"state": {"next_index": 0}, "pipeline": ["source: range(0, 8)"]}
    with pytest.raises(ChangedPipelineError, match=r"\+ source: range\(0, 9\)"):
        iter(numbers(9)).load_state_dict(saved)
    iter(numbers(9)).load_state_dict(saved, allow=("source",))
    with pytest.raises(ChangedPipelineError, match="seed=2"):
        iter(loader(seed=2)).load_state_dict(iter(loader()).state_dict())


def test_what_is_no_state_dict_is_refused():
    with pytest.raises(ValueError, match="is for `set_state`"):
        iter(numbers()).load_state_dict({"next_index": 3})


@settings(deadline=None)
@given(*[st.lists(st.sampled_from("abcd"), max_size=8)] * 2)
def test_a_difference_holds_both_sides_and_says_no_more_than_needed(before, after):
    marked = [(line[2], line[4:]) for line in difference(before, after).splitlines()]
    middle = any(text.startswith("…") for _, text in marked)
    if not middle:
        assert [text for mark, text in marked if mark in " -"] == before
        assert [text for mark, text in marked if mark in " +"] == after
    matched = [text for mark, text in marked if mark == " "]
    longest = max((len(kept) for kept in subsequences(before) if is_within(kept, after)), default=0)
    assert middle or len(matched) == longest


def subsequences(items):
    return [
        list(itertools.compress(items, mask))
        for mask in itertools.product([0, 1], repeat=len(items))
    ]


def is_within(kept, items):
    rest = iter(items)
    return all(item in rest for item in kept)

"""Run programs as other projects write them, on this project and on google/grain, and compare their output.

Usage: python tools/clients.py --reference PYTHON [--only NAME]

Each program below uses the library the way a project does: the same imports, the same private names, the same
order of construction. It prints what it finds; both runs must print the same. A program that needs a package
which is not installed is reported as skipped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import textwrap

COMMON = """
import contextlib, sys, tempfile
import numpy as np
try:
    from absl import flags
    flags.FLAGS.mark_as_parsed()
except ImportError:
    pass
def shown(value):
    if isinstance(value, dict):
        return {key: shown(child) for key, child in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [shown(child) for child in value]
    array = np.asarray(value)
    return [str(array.dtype), list(array.shape), array.tolist()]
"""

PROGRAMS = {
    "axlearn": """
        import sys
        import grain.python as grain
        from grain._src.core.sharding import even_split
        from grain._src.core.transforms import FlatMap
        from grain._src.python.data_loader import _determine_worker_count
        from grain._src.python.dataset import dataset as dataset_base
        from grain._src.python.dataset.transformations import flatmap, packing

        class Unbatch(dataset_base.DatasetIterator):
            def __init__(self, parent):
                super().__init__(parent)
                self._index = 0
                self._batch = None
            def __next__(self):
                with self._stats.record_self_time():
                    if self._batch is None:
                        self._batch = next(self._parent)
                    element = self._batch[self._index]
                    self._index += 1
                    if self._index == len(self._batch):
                        self._index, self._batch = 0, None
                    return element
            def get_state(self):
                return {"parent": self._parent.get_state(), "index": self._index}
            def set_state(self, state):
                self._parent.set_state(state["parent"])
                self._index = state["index"]

        class UnbatchDataset(grain.IterDataset):
            def __iter__(self):
                return Unbatch(self._parent.__iter__())

        print([even_split(10, grain.ShardOptions(i, 3)) for i in range(3)], _determine_worker_count(3))
        parts = [grain.MapDataset.range(n).shuffle(seed=n).repeat() for n in (5, 7)]
        mixed = grain.MapDataset.mix(parts, weights=[0.3, 0.7])
        print(len(mixed) > 2**60, list(mixed[:9].shuffle(seed=1).repeat(2)))
        ds = mixed[:8].batch(2).to_iter_dataset()
        print(shown(list(UnbatchDataset(ds))))
        filtered = ds.map(lambda b: None if b[0] % 2 else b).filter(lambda b: b is not None)
        print(shown(list(filtered)))
        tokens = grain.MapDataset.range(6).map(lambda i: {"t": np.arange(i + 1)}).to_iter_dataset()
        packed = packing.FirstFitPackIterDataset(tokens, length_struct={"t": 6}, num_packing_bins=2)
        print(shown(list(packed)))
    """,
    "maxtext": """
        import grain.python as grain
        from grain._src.python.dataset.sources.tfrecord_dataset import (
            _TFRecordDatasetIterator, _TFRecordReader)
        from grain.experimental import TFRecordIterDataset

        class Reader(_TFRecordReader):
            def __init__(self, path):
                self._reader = open(path, "rb")

        class Records(_TFRecordDatasetIterator):
            def __init__(self, path):
                grain.DatasetIterator.__init__(self)
                self._reader = Reader(path)

        class Dataset(TFRecordIterDataset):
            def __iter__(self):
                return Records(self._path)

        print(Dataset.__mro__[1].__name__, issubclass(Records, grain.DatasetIterator))
        ds = grain.MapDataset.source(list(range(12))).shuffle(seed=3).repeat(2)[0::2]
        ds = ds.map(lambda x: {"inputs": np.arange(4) + x}).to_iter_dataset().batch(3, drop_remainder=True)
        iterator = iter(ds)
        print(shown(next(iterator)), iterator.get_state())
    """,
    "keras": """
        import os
        os.environ["KERAS_BACKEND"] = "jax"
        import keras
        import grain
        from keras.src.trainers.data_adapters.grain_dataset_adapter import GrainDatasetAdapter
        from keras.src.utils.backend_utils import in_grain_data_pipeline
        from keras.src.utils.dataset_utils import is_grain_dataset

        keras.utils.set_random_seed(1)
        x = np.random.RandomState(0).rand(32, 4).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        source = list(zip(x, y))
        batches = grain.MapDataset.source(source).shuffle(seed=1).batch(8)
        adapter = GrainDatasetAdapter(batches)
        print(shown(list(adapter.get_numpy_iterator())[0][1]))
        print(is_grain_dataset(batches), is_grain_dataset(batches.to_iter_dataset()), is_grain_dataset([1]))
        asked = grain.MapDataset.range(2).map(lambda _: in_grain_data_pipeline())
        print(list(asked), list(asked.to_iter_dataset()), in_grain_data_pipeline())
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        for data in (batches, batches.to_iter_dataset()):
            history = model.fit(data, epochs=2, verbose=0)
            print([f"{loss:.5f}" for loss in history.history["loss"]])
        loader = grain.DataLoader(
            data_source=source, sampler=grain.samplers.SequentialSampler(32),
            operations=[grain.transforms.Batch(8)])
        print(f"{model.evaluate(loader, verbose=0):.5f}")
    """,
    "keras on tensorflow": """
        import os
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf
        import grain

        keras.utils.set_random_seed(1)
        x = np.random.RandomState(0).rand(32, 4).astype("float32")
        y = x.sum(axis=1, keepdims=True)
        batches = grain.MapDataset.source(list(zip(x, y))).shuffle(seed=1).batch(8)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        for data in (batches, batches.to_iter_dataset()):
            history = model.fit(data, epochs=2, verbose=0)
            print([f"{loss:.5f}" for loss in history.history["loss"]])
        print([f"{row[0]:.5f}" for row in model.predict(batches, verbose=0)[:4]])
        # As programs of tf.data read it.
        signature = (tf.TensorSpec((None, 4), tf.float32), tf.TensorSpec((None, 1), tf.float32))
        tensors = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
        print([shown(pair[1].numpy()) for pair in tensors.prefetch(2)])
    """,
    "keras on torch": """
        import os
        os.environ["KERAS_BACKEND"] = "torch"
        import torch
        import keras
        import grain

        keras.utils.set_random_seed(1)
        x = np.random.RandomState(0).rand(32, 4).astype("float32")
        batches = grain.MapDataset.source(list(zip(x, x.sum(axis=1, keepdims=True)))).seed(1).batch(8)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        for data in (batches.shuffle(), batches.to_iter_dataset()):
            history = model.fit(data, epochs=2, verbose=0)
            print([f"{loss:.5f}" for loss in history.history["loss"]])
        print([f"{row[0]:.5f}" for row in model.predict(batches, verbose=0)[:4]])
    """,
    "torch": """
        import torch
        import grain
        from torch.utils.data import DataLoader, IterableDataset

        class Stream(IterableDataset):
            def __init__(self, ds):
                self.ds = ds
            def __iter__(self):
                return iter(self.ds)

        ds = grain.MapDataset.range(10).shuffle(seed=1).map(lambda x: {"x": np.full(2, x)})
        print([shown(batch["x"].numpy()) for batch in DataLoader(Stream(ds.to_iter_dataset()), batch_size=4)])
        print([shown(batch["x"].numpy()) for batch in DataLoader(ds, batch_size=4)])
        print([shown(batch) for batch in ds.map(lambda e: torch.tensor(e["x"]).numpy()).batch(3)])
    """,
    "kauldron": """
        import dataclasses
        import grain.python as grain
        import kauldron.data.py as py

        @dataclasses.dataclass(frozen=True)
        class Scale(grain.MapTransform):
            factor: int
            def map(self, element):
                return {"x": element["x"] * self.factor}

        @dataclasses.dataclass(frozen=True)
        class Noise(grain.RandomMapTransform):
            def random_map(self, element, rng):
                return {"x": element["x"] + rng.integers(0, 100)}

        def rows(first, count):
            return [{"x": np.arange(3) + first + i} for i in range(count)]

        def source(first, count, **options):
            return py.DataSource(data_source=rows(first, count), **options)

        for options in (
            {"shuffle": True, "batch_size": 4, "num_epochs": 2},
            {"shuffle": False, "batch_size": 4, "num_epochs": 1, "batch_drop_remainder": False},
            {"shuffle": False, "batch_size": 4, "num_epochs": 1, "batch_drop_remainder": "pad"},
        ):
            ds = source(0, 10, transforms=[Scale(2), Noise()], seed=0, num_workers=0, **options)
            print(len(ds), [shown(batch) for batch in ds])
        parts = [source(0, 6, shuffle=True), source(100, 9, shuffle=True, transforms=[Noise()])]
        mixed = py.Mix(parts, weights=[1, 2], seed=1, batch_size=3, num_epochs=1, num_workers=0)
        print([shown(batch) for batch in mixed])
        iterator = iter(mixed)
        next(iterator)
        print(type(iterator).__name__, len(mixed), mixed.element_spec)
        if __name__ == "__main__":
            worked = source(0, 10, shuffle=True, seed=0, num_workers=1, batch_size=5, num_epochs=1)
            print([shown(batch) for batch in worked])
    """,
    "tfds": """
        import tensorflow_datasets as tfds
        import grain

        class Numbers(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")
            def _info(self):
                features = {"x": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                            "label": tfds.features.ClassLabel(num_classes=3)}
                return tfds.core.DatasetInfo(
                    builder=self, features=tfds.features.FeaturesDict(features))
            def _split_generators(self, manager):
                return {"train": self._generate_examples(12), "test": self._generate_examples(3)}
            def _generate_examples(self, count):
                for i in range(count):
                    yield i, {"x": np.array([i, i / 2], np.float32), "label": i % 3}

        tfds.display_progress_bar(False)
        with tempfile.TemporaryDirectory() as folder:
            builder = Numbers(data_dir=folder, file_format="array_record")
            with contextlib.redirect_stdout(sys.stderr):
                builder.download_and_prepare()
            source = builder.as_data_source(split="train")
            ds = grain.MapDataset.source(source).shuffle(seed=1)
            print(len(source), [shown(element) for element in ds.batch(5)])
            loader = grain.DataLoader(
                data_source=builder.as_data_source(split="test"),
                sampler=grain.samplers.IndexSampler(3, shuffle=True, seed=2, num_epochs=2),
                operations=[grain.transforms.Batch(2)])
            print([shown(batch) for batch in loader])
            split = builder.as_data_source(split="train[50%:]")
            print([int(element["label"]) for element in grain.MapDataset.source(split)])
    """,
    "tutorial": """
        import grain.python as grain
        import jax

        class Parse(grain.MapTransform):
            def map(self, element):
                return {"x": np.float32(element) / 7, "y": int(element) % 3}

        class Augment(grain.RandomMapTransform):
            def random_map(self, element, rng):
                return {**element, "x": element["x"] + np.float32(rng.uniform())}

        sampler = grain.IndexSampler(
            20, shuffle=True, seed=45, num_epochs=1, shard_options=grain.NoSharding())
        loader = grain.DataLoader(
            data_source=np.arange(20), sampler=sampler, worker_count=0,
            operations=[Parse(), Augment(), grain.Batch(6, drop_remainder=True)])
        iterator = iter(loader)
        first = next(iterator)
        state = iterator.get_state()
        rest = [shown(jax.tree.map(np.asarray, batch)) for batch in iterator]
        iterator.set_state(state)
        print(shown(first), rest == [shown(batch) for batch in iterator], rest)
        print(sorted(__import__("json").loads(state)), repr(sampler))
    """,
    "orbax": """
        import grain
        ORDER = {order!r}
        if ORDER == "handler before orbax":
            handler = grain.checkpoint.CheckpointHandler()
        import orbax.checkpoint as ocp
        from grain import checkpoint
        iterator = iter(grain.MapDataset.range(9).to_iter_dataset())
        next(iterator)
        if ORDER == "arguments first":
            checkpoint.CheckpointSave
        if ORDER != "handler before orbax":
            handler = checkpoint.CheckpointHandler()
        with tempfile.TemporaryDirectory() as folder:
            if ORDER == "no handler":
                manager = ocp.CheckpointManager(folder)
            elif ORDER == "checkpointer":
                one = ocp.Checkpointer(handler)
                one.save(folder + "/x", args=checkpoint.CheckpointSave(iterator))
                next(iterator)
                one.restore(folder + "/x", args=checkpoint.CheckpointRestore(iterator))
                print(next(iterator))
                sys.exit()
            else:
                manager = ocp.CheckpointManager(folder, item_handlers={"it": handler})
            manager.save(0, args=ocp.args.Composite(it=checkpoint.CheckpointSave(iterator)))
            manager.wait_until_finished()
            next(iterator)
            manager.restore(0, args=ocp.args.Composite(it=checkpoint.CheckpointRestore(iterator)))
            manager.close()
        print(next(iterator))
    """,
    "private names": """
        import importlib
        for name in (
            "core.constants:META_FEATURES", "core.sharding:ShardByJaxProcess", "core.transforms:Batch",
            "python.data_sources:RangeDataSource", "python.dataset.dataset:MapDataset",
            "python.dataset.transformations.source:SourceMapDataset", "python.samplers:IndexSampler",
            "python.dataset.transformations.prefetch:ThreadPrefetchIterDataset",
            "python.dataset.transformations.flatmap:FlatMapIterDataset",
            "python.ipc.shared_memory_array:SharedMemoryArrayMetadata", "python.options:ReadOptions",
            "python.dataset.stats:record_next_duration_if_output", "python.data_loader:DataLoader",
        ):
            module, _, attribute = name.partition(":")
            found = getattr(importlib.import_module("grain._src." + module), attribute)
            print(name, getattr(found, "__name__", sorted(found) if not callable(found) else ""))
        import importlib.metadata
        print(importlib.metadata.version("grain").partition("+")[0])
    """,
}
ORBAX_ORDERS = (
    "handler first",
    "handler before orbax",
    "arguments first",
    "no handler",
    "checkpointer",
)


def programs() -> dict[str, str]:
    """Return the text of each program by name."""
    found = {}
    for name, text in PROGRAMS.items():
        if name != "orbax":
            found[name] = COMMON + textwrap.dedent(text)
            continue
        for order in ORBAX_ORDERS:
            found[f"orbax, {order}"] = COMMON + textwrap.dedent(text).replace(
                "{order!r}", repr(order)
            )
    return found


def run(python: str, program: str) -> tuple[int, str, str]:
    """Return the exit code, the output and the last line of errors of a program."""
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]


def main() -> int:
    """Run and compare all programs; return how many differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--reference", required=True, help="a Python that has google/grain installed"
    )
    parser.add_argument("--only", help="programs whose name contains this text")
    arguments = parser.parse_args()
    different = 0
    for name, program in programs().items():
        if arguments.only and arguments.only not in name:
            continue
        here, there = run(sys.executable, program), run(arguments.reference, program)
        if any("No module named" in side[2] and side[0] for side in (here, there)):
            print(f"{name}: skipped ({here[2] or there[2]})")
        elif here[:2] == there[:2] and not here[0]:
            print(f"{name}: the same ({len(here[1].splitlines())} lines)")
        else:
            different += 1
            print(f"{name}: different\n  here:  {here}\n  there: {there}")
    return different


if __name__ == "__main__":
    sys.exit(main())

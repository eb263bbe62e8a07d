"""A source, a stream and transforms that pass every check; each hostile one breaks one rule."""

from __future__ import annotations

import operator
import os
import threading
from typing import Any

import numpy as np

import grain
from grain.plugins import Capability

COUNT = 14
WIDTH = 4
ELEMENTS = [
    {"id": np.int64(n), "row": np.arange(n, n + WIDTH - 1, dtype=np.float32) + 1}
    for n in range(COUNT)
]
ALL = frozenset(
    {
        Capability.BATCHED_READ,
        Capability.COLUMNS,
        Capability.THREAD_SAFE,
        Capability.CLOSABLE,
    }
)


def write(directory: str) -> None:
    for name, count in (("records", COUNT), ("larger", 40 * COUNT)):
        table = np.arange(count, dtype=np.float32)[:, None] + np.arange(WIDTH, dtype=np.float32)
        table.tofile(path_in(directory, name))


def path_in(directory: str, name: str = "records") -> str:
    return os.path.join(directory, name)


def read_at(file: Any, offset: int, size: int) -> bytes:
    file.seek(offset)
    data: bytes = file.read(size)
    return data


def parse(data: bytes) -> dict[str, Any]:
    numbers = np.frombuffer(data, np.float32).copy()
    return {"id": np.int64(numbers[0]), "row": numbers[1:]}


class GoodSource:
    """Records of a file, opened for each read."""

    capabilities = ALL

    def __init__(self, directory: str, name: str = "records"):
        self._path = path_in(directory, name)
        self._length = os.path.getsize(self._path) // (4 * WIDTH)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        index = operator.index(index)
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of range for {len(self)} records.")
        return self.record(index)

    def record(self, index: int) -> Any:
        with open(self._path, "rb") as file:
            file.seek(index * 4 * WIDTH)
            return parse(file.read(4 * WIDTH))

    def __getitems__(self, indices: Any) -> list[Any]:
        wanted = [operator.index(index) for index in indices]
        for index in wanted:
            if not 0 <= index < len(self):
                raise IndexError(f"Index {index} is out of range for {len(self)} records.")
        return [GoodSource.record(self, index) for index in wanted]

    def __getcolumns__(self, indices: Any) -> Any:
        records = GoodSource.__getitems__(self, indices)
        return {key: np.stack([record[key] for record in records]) for key in ("id", "row")}

    def close(self) -> None:
        pass

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(records={self._length})"


class GoodLockedSource(GoodSource):
    """Records of a file that stays open, under a lock."""

    def __init__(self, directory: str, name: str = "records"):
        super().__init__(directory, name)
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._file: Any = None

    def record(self, index: int) -> Any:
        with self._lock:
            if self._file is None:
                self._file = open(self._path, "rb")  # noqa: SIM115
            return parse(read_at(self._file, index * 4 * WIDTH, 4 * WIDTH))

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    __del__ = close

    def __getstate__(self) -> dict[str, Any]:
        return {key: self.__dict__[key] for key in ("_path", "_length")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class GoodStream(grain.IterDataset):
    """Records of a file in order."""

    capabilities = frozenset()

    def __init__(self, directory: str, name: str = "records"):
        super().__init__()
        self.path = path_in(directory, name)

    def __iter__(self) -> Any:
        return GoodIterator(self.path)


class GoodIterator(grain.DatasetIterator):
    def __init__(self, path: str):
        super().__init__()
        self.path = path
        self.position = 0

    def __next__(self) -> Any:
        if self.position >= COUNT:
            raise StopIteration
        with open(self.path, "rb") as file:
            file.seek(self.position * 4 * WIDTH)
            self.position += 1
            return parse(file.read(4 * WIDTH))

    def get_state(self) -> Any:
        return {"next": self.position}

    def set_state(self, state: Any) -> None:
        self.position = state["next"]


class GoodRandomMap(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return {**element, "row": element["row"] + rng.normal()}


class GoodMap(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] * 2}


def good_batch() -> Any:
    return grain.transforms.Batch(4, batch_fn=stacked_rows)


def stacked_rows(elements: Any) -> Any:
    return np.stack([element["row"] for element in elements])


class GoodFilter(grain.transforms.Filter):
    def filter(self, element: Any) -> bool:
        return bool(element["id"] % 2)


class GoodFlatMap(grain.transforms.FlatMap):
    max_fan_out = 3

    def flat_map(self, element: Any) -> Any:
        return [element["id"], element["id"] + 1]

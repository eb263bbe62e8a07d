"""Read batches with 4 workers, stop mid-epoch, resume in a fresh process with none, and compare.

Usage: python examples/demo.py

Exits with 1 if the resumed stream differs in a single byte from the undisturbed one.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import grain

GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""

RECORDS = 12_800
EPOCHS = 2
BATCH_SIZE = 64
TOTAL = -(-RECORDS // BATCH_SIZE) * EPOCHS
STOP_AFTER = 73
WORKERS = 4
# The wait of a read from remote storage, and how many such reads the last step times.
LATENCY = 0.002
REMOTE_READS = 256

Batch = dict[str, np.ndarray]


# --- the data and the pipeline -------------------------------------------------------------------


class Digits:
    """Pictures of the ten digits, 16 by 16 pixels, drawn when they are read."""

    def __init__(self, size: int) -> None:
        rows = [line.split() for line in GLYPHS.split("\n") if line]
        self._size = size
        self._glyphs = [
            np.array([[255 * (cell == "#") for cell in row[digit]] for row in rows], np.uint8)
            for digit in range(10)
        ]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, object]:
        digit, shift = int(index) % 10, int(index) // 10
        image = np.zeros((16, 16), np.uint8)
        top, left = shift % 10, shift // 10 % 12
        image[top : top + 7, left : left + 5] = self._glyphs[digit]
        return {"image": image, "label": np.int32(digit)}

    def __repr__(self) -> str:
        return f"Digits(size={self._size})"


class RemoteDigits(Digits):
    """The same pictures, where each read waits as if it went to remote storage."""

    def __getitem__(self, index: int) -> dict[str, object]:
        time.sleep(LATENCY)
        return super().__getitem__(index)


def normalize(record: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Convert pixels to floats between 0 and 1."""
    return record | {"image": record["image"].astype(np.float32) / 255}


def add_noise(record: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Add noise that differs in every epoch and is the same in every run."""
    noise = rng.normal(scale=0.1, size=record["image"].shape).astype(np.float32)
    return record | {"image": record["image"] + noise}


def pipeline(
    workers: int = 0, source: type[Digits] = Digits, epochs: int = EPOCHS
) -> grain.IterDataset:
    """Return the pipeline of a training loop, computed here or by worker processes."""
    ds = (
        grain.MapDataset.source(source(RECORDS))
        .seed(42)
        .shuffle()
        .repeat(epochs)
        .map(normalize)
        .random_map(add_noise)
        .batch(BATCH_SIZE)
        .to_iter_dataset()
    )
    return ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else ds


def by_hand() -> float:
    """Return the elements per second of a plain loop over the same functions, read in index order."""
    source, rng = RemoteDigits(RECORDS), np.random.default_rng(42)
    started = time.perf_counter()
    for first in range(0, REMOTE_READS, BATCH_SIZE):
        records = [add_noise(normalize(source[i]), rng) for i in range(first, first + BATCH_SIZE)]
        for name in records[0]:
            np.stack([record[name] for record in records])
    return REMOTE_READS / (time.perf_counter() - started)


def by_grain(workers: int = 0) -> float:
    """Return the elements per second of the pipeline over slow reads, after its first batch."""
    with iter(pipeline(workers, RemoteDigits, epochs=1)) as iterator:
        next(iterator)
        started = time.perf_counter()
        batches = sum(1 for _ in itertools.islice(iterator, 100))
        return batches * BATCH_SIZE / (time.perf_counter() - started)


# --- showing and comparing -----------------------------------------------------------------------


class Progress:
    """A progress bar with the throughput: one line on a terminal, a few lines elsewhere."""

    WIDTH = 30

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self._title, self._total, self._done = title, total, done
        self._first = done
        self._started: float | None = None
        self._live = sys.stdout.isatty()

    def step(self) -> None:
        """Count one batch; the clock starts after the first."""
        self._done += 1
        if self._started is None:
            self._first, self._started = self._done, time.perf_counter()
        last = self._done == self._total
        if last or self._done % max(1, self._total // (100 if self._live else 5)) == 0:
            self._draw(end="\r" if self._live and not last else "\n")

    def stop(self) -> None:
        """Draw the last state, unless it is complete."""
        if self._done < self._total:
            self._draw(end="\n")

    def _draw(self, end: str) -> None:
        filled = self.WIDTH * self._done // self._total
        seconds = max(time.perf_counter() - (self._started or 0), 1e-9)
        speed = (self._done - self._first) * BATCH_SIZE / seconds
        speed_text = f"{speed:>11,.0f} elements/s"
        bar = "#" * filled + "." * (self.WIDTH - filled)
        count = f"{self._done:>{len(str(self._total))}}/{self._total} batches"
        print(f"  {self._title:<12} [{bar}] {count} {speed_text}", end=end, flush=True)


def digest(batch: Batch) -> str:
    """Return a digest of every byte of a batch."""
    sha = hashlib.sha256()
    for name in sorted(batch):
        array = np.ascontiguousarray(batch[name])
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def consume(
    iterator: Iterator[Batch], title: str, done: int = 0, stop: int | None = None
) -> list[str]:
    """Read batches up to `stop`, or to the end; return their digests."""
    progress = Progress(title, TOTAL, done)
    digests: list[str] = []
    while stop is None or done + len(digests) < stop:
        try:
            batch = next(iterator)
        except StopIteration:
            break
        digests.append(digest(batch))
        progress.step()
    progress.stop()
    return digests


# --- the two processes ---------------------------------------------------------------------------


def resume(checkpoint: pathlib.Path) -> None:
    """Resume in the fresh process, from the pipeline and the checkpoint only."""
    saved = json.loads(checkpoint.read_text())
    iterator = iter(pipeline())
    iterator.set_state(saved["state"])
    digests = consume(iterator, "resumed", done=saved["batches"])
    checkpoint.with_suffix(".digests").write_text(json.dumps(digests))


def demonstrate(directory: pathlib.Path) -> bool:
    """Run all steps; return False if the two streams differ."""
    print(f"grain {getattr(grain, '__version__', '')}: {RECORDS:,} pictures, {EPOCHS} epochs,")
    print(f"shuffled, normalised, with random noise, in batches of {BATCH_SIZE}.\n")

    print("1. Undisturbed, in this process, from start to end:")
    expected = consume(iter(pipeline()), "undisturbed")

    print(
        f"\n2. Once more, by {WORKERS} worker processes, stopped after {STOP_AFTER} batches, mid-epoch:"
    )
    with iter(pipeline(WORKERS)) as iterator:
        before = consume(iterator, f"{WORKERS} workers", stop=STOP_AFTER)
        text = json.dumps({"batches": len(before), "state": iterator.get_state()})
    checkpoint = directory / "checkpoint.json"
    checkpoint.write_text(text)
    print(f"  checkpoint, {len(text)} bytes of JSON: {text}")

    print("\n3. Restored in a fresh process, without workers, to the end:", flush=True)
    command = [sys.executable, __file__, "--resume", str(checkpoint)]
    subprocess.run(command, check=True)
    after = json.loads(checkpoint.with_suffix(".digests").read_text())

    equal = compare(expected, before, after)
    print(
        f"\n5. The same pipeline where each read waits {LATENCY * 1000:.0f} ms, as on remote storage:"
    )
    for name, speed in (
        ("a plain Python loop", by_hand),
        ("grain, default threads", by_grain),
        (f"grain, {WORKERS} workers", lambda: by_grain(WORKERS)),
    ):
        print(f"  {name:<22} {speed():>9,.0f} elements/s", flush=True)
    print("  Against google/grain, torch and others: docs/benchmarks.md")
    print(
        "\nWhat next: docs/quickstart.md trains a model on your own files; examples/ has programs to"
    )
    print("copy from; in Python, `import grain` and display any dataset to see its pipeline.")
    return equal


def compare(expected: list[str], before: list[str], after: list[str]) -> bool:
    """Return whether the interrupted stream and its continuation equal the undisturbed one."""
    streams = {"undisturbed": expected, f"{WORKERS} workers, then none": before + after}
    print("\n4. Every byte of both streams, as SHA-256:")
    for name, digests in streams.items():
        whole = hashlib.sha256("".join(digests).encode()).hexdigest()
        print(f"  {name:<22} {len(digests):>4} batches  {whole}")
    if before + after == expected and len(expected) == TOTAL:
        print(
            "\nThe streams are equal: neither workers nor resuming lost, repeated or changed a byte."
        )
        return True
    pairs = enumerate(zip(expected, before + after, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(before + after)))
    print(f"\nThe streams DIFFER from batch {first} on (expected {TOTAL} batches).")
    return False


def main() -> int:
    """Run the command line: no arguments, or `--resume` in the fresh process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--resume", type=pathlib.Path, help=argparse.SUPPRESS)
    checkpoint = parser.parse_args().resume
    if checkpoint is not None:
        resume(checkpoint)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        return 0 if demonstrate(pathlib.Path(directory)) else 1


if __name__ == "__main__":
    sys.exit(main())

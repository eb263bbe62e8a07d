"""Texts of all lengths packed into rows of one length, for training language models.

A row holds several texts; `segment_ids` say which token belongs to which text, so that attention does
not cross texts, and `positions` count from 0 in each.

Install: pip install ./packages/grain-core
Run:     python examples/packing_text.py
"""

from __future__ import annotations

import numpy as np

import grain

LENGTH, BATCH_SIZE = 80, 4
TEXT = "in the beginning a grain of sand was all there was to see and then came many more"


def make_texts() -> list[str]:
    """Return four hundred texts of one to nine words."""
    rng, words = np.random.default_rng(0), TEXT.split()
    return [" ".join(rng.choice(words, size)) for size in rng.integers(1, 10, 400)]


def tokenize(text: str) -> dict[str, np.ndarray]:
    """Return bytes as tokens, in place of a real tokenizer: inputs, and targets shifted by one."""
    tokens = np.frombuffer(text.encode() + b"\n", np.uint8).astype(np.int32)[: LENGTH + 1]
    return {"inputs": tokens[:-1], "targets": tokens[1:]}


def show(row: dict[str, np.ndarray]) -> None:
    """Print a row as text, and below each letter the number of its text."""
    print("  " + "".join(chr(token) if token else "." for token in row["inputs"]))
    print("  " + "".join(str(segment) for segment in row["inputs_segment_ids"]))


def main() -> None:
    """Pack the texts and print how full the rows are."""
    texts = make_texts()
    ds = grain.MapDataset.source(texts).seed(0).shuffle().map(tokenize).to_iter_dataset()
    packed = grain.experimental.FirstFitPackIterDataset(
        ds, length_struct={"inputs": LENGTH, "targets": LENGTH}, num_packing_bins=20
    )
    # Packing depends on earlier elements, and can still be stopped and resumed anywhere.
    iterator = iter(packed.batch(BATCH_SIZE))
    batch = next(iterator)
    print("a batch:", {name: array.shape for name, array in batch.items()})
    state = iterator.get_state()
    following = next(iterator)
    iterator.set_state(state)
    print("the same after a resume:", np.array_equal(next(iterator)["inputs"], following["inputs"]))

    rows = list(packed)
    for row in rows[:3]:
        show(row)
    tokens = sum(np.count_nonzero(row["inputs_segment_ids"]) for row in rows)
    print(f"{len(texts)} texts in {len(rows)} rows, {tokens / (len(rows) * LENGTH):.0%} full")
    print(f"one text a row would be {tokens / (len(texts) * LENGTH):.0%} full")


if __name__ == "__main__":
    main()

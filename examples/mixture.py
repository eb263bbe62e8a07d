"""Named datasets mixed by weight; later the weights change and a dataset is added.

Install: pip install ./packages/grain-core
Run:     python examples/mixture.py
"""

from __future__ import annotations

import collections

import grain


def dataset(name: str, size: int) -> grain.MapDataset[str]:
    """Return texts of one kind, shuffled and repeated without end."""
    texts = [f"{name} {number}" for number in range(size)]
    return grain.MapDataset.source(texts).shuffle(seed=0).repeat()


def count(texts: grain.MapDataset[str]) -> dict[str, int]:
    """Return the number of texts of each kind."""
    return dict(sorted(collections.Counter(text.split()[0] for text in texts).items()))


def main() -> None:
    """Mix datasets and count the elements of each."""
    datasets = {
        "books": dataset("book", 50),
        "code": dataset("code", 200),
        "web": dataset("page", 1000),
    }
    mixture = grain.MapDataset.mix(datasets, weights={"books": 0.2, "code": 0.3, "web": 0.5})
    print("first:", *mixture[:6], sep=" | ")
    print("of the first 1000:", count(mixture[:1000]))

    # From element 500 on there is more code, and a new dataset. Elements before it do not change, and
    # datasets with a name continue at their position.
    datasets["math"] = dataset("proof", 30)
    later = mixture.change_at(500, datasets, {"books": 0.1, "code": 0.6, "math": 0.2, "web": 0.1})
    print("of 1000 after the change:", count(later[500:1500]))
    print("the same before it:", list(later[:500]) == list(mixture[:500]))

    # A mixture is a dataset like any other: batch it, shard it, save its state.
    iterator = iter(later.batch(4).to_iter_dataset())
    print("batch:", *next(iterator), sep=" | ")
    print("state:", iterator.get_state())


if __name__ == "__main__":
    main()

"""Several datasets mixed by weight, each with a name; on the way, weights change and one more comes in.

Install: pip install ./packages/grain-core
Run:     python examples/mixture.py
"""

from __future__ import annotations

import collections

import grain


def dataset(name: str, size: int) -> grain.MapDataset[str]:
    """Texts of one kind, shuffled, again and again without an end."""
    texts = [f"{name} {number}" for number in range(size)]
    return grain.MapDataset.source(texts).shuffle(seed=0).repeat()


def count(texts: grain.MapDataset[str]) -> dict[str, int]:
    """How many texts there are of each kind."""
    return dict(sorted(collections.Counter(text.split()[0] for text in texts).items()))


def main() -> None:
    """Mixes datasets and counts how often each is met."""
    parts = {
        "books": dataset("book", 50),
        "code": dataset("code", 200),
        "web": dataset("page", 1000),
    }
    mixture = grain.MapDataset.mix(parts, weights={"books": 0.2, "code": 0.3, "web": 0.5})
    print("first:", *mixture[:6], sep=" | ")
    print("of the first 1000:", count(mixture[:1000]))

    # From element 500 on there is more code, and something new. What came before stays as it was,
    # and what has a name goes on where it stands.
    parts["math"] = dataset("proof", 30)
    later = mixture.change_at(500, parts, {"books": 0.1, "code": 0.6, "math": 0.2, "web": 0.1})
    print("of 1000 after the change:", count(later[500:1500]))
    print("the same before it:", list(later[:500]) == list(mixture[:500]))

    # A mixture is a dataset like any other: batch it, shard it, save where it is.
    iterator = iter(later.batch(4).to_iter_dataset())
    print("batch:", *next(iterator), sep=" | ")
    print("state:", iterator.get_state())


if __name__ == "__main__":
    main()

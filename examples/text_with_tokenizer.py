"""Two corpora, tokenized by a trained byte-pair encoding, mixed by weight and packed into rows.

Install: pip install ./packages/grain-core tokenizers
Run:     python examples/text_with_tokenizer.py
"""

from __future__ import annotations

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import grain

LENGTH, BATCH_SIZE = 64, 8
NEWS = "the price of grain rose again as rain delayed the harvest and ships waited in the port"
CODE = "for element in dataset : print ( element ) ; return batch [ index ] + offset"


def corpus(words: str, seed: int) -> list[str]:
    """Return three hundred texts made of words."""
    rng, vocabulary = np.random.default_rng(seed), words.split()
    return [" ".join(rng.choice(vocabulary, size)) for size in rng.integers(3, 30, 300)]


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Return a byte-pair encoding; `Tokenizer.from_file` or `from_pretrained` load one instead."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=["<pad>", "<eos>"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


class Tokenize(grain.transforms.Map):
    """Texts to token ids; a tokenizer pickles, so workers receive it once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._end = tokenizer.token_to_id("<eos>")

    def map(self, element: str) -> dict:
        """Return the ids of a text and its end, cut to the length of a row."""
        ids = [*self._tokenizer.encode(element).ids[: LENGTH - 1], self._end]
        return {"tokens": np.array(ids, np.int32)}


def main() -> None:
    """Train the tokenizer, build the pipeline, and resume it in the middle."""
    news, code = corpus(NEWS, 0), corpus(CODE, 1)
    tokenizer = train_tokenizer(news + code)
    print(f"{tokenizer.get_vocab_size()} tokens; {tokenizer.encode('the harvest').tokens}")
    parts = {
        name: grain.MapDataset.source(texts).shuffle(seed=2).map(Tokenize(tokenizer)).repeat()
        for name, texts in {"news": news, "code": code}.items()
    }
    ds = (
        grain.MapDataset.mix(parts, {"news": 3, "code": 1})
        .to_iter_dataset()
        .pack({"tokens": LENGTH}, strategy="first_fit", num_packing_bins=16)
        .batch(BATCH_SIZE)
        .mp_prefetch(num_workers=1)
    )
    with iter(ds) as iterator:
        batches = [next(iterator) for _ in range(4)]
        state = iterator.get_state()
        expected = next(iterator)
    filled = np.mean([(batch["tokens_segment_ids"] > 0).mean() for batch in batches])
    texts = np.mean([batch["tokens_segment_ids"].max(axis=1).mean() for batch in batches])
    print(f"rows of {LENGTH}: {filled:.0%} filled, {texts:.1f} texts in each")
    first = batches[0]["tokens"][0][batches[0]["tokens_segment_ids"][0] == 1]
    text = tokenizer.decode(first.tolist())
    print(f"the first text has {len(text.split())} words, all known: {known(text)}")
    with iter(ds) as iterator:
        iterator.set_state(state)
        same = np.array_equal(next(iterator)["tokens"], expected["tokens"])
    print(f"resumed after 4 batches, the next is the same: {same}")


def known(text: str) -> bool:
    """Return whether a text consists of words of the corpora."""
    return set(text.split()) <= set(f"{NEWS} {CODE}".split())


if __name__ == "__main__":
    main()

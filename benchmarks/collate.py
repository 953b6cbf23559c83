"""Batches of every objective beside the masked-LM collator of transformers; does a model wait?

Ours goes all the way: from the mapped corpus through the shuffled order to packed tensors with what
is hidden and asked. The collator of transformers gets the examples as lists of ids that are in
memory already, with their special tokens. Both make batches of 32 examples of up to 128 tokens, in
one thread; repetitions alternate. Then a model of 4 layers and width 256 is trained with batches
made ahead by one thread; the time it waits for them is stated as a share of the step.

    python benchmarks/collate.py [CORPUS] [--quick] [--repeats 5]

Without a corpus folder a made-up one is used.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

LENGTH, EXAMPLES = 128, 32
OBJECTIVES = ("masked blocks", "roberta", "bert", "albert", "spanbert", "simcse")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="a corpus folder")
    parser.add_argument("--quick", action="store_true", help="few batches, few steps")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    batches, repeats, steps = (50, 2, 4) if options.quick else (200, options.repeats, 12)
    with tempfile.TemporaryDirectory() as place:
        corpus = options.corpus or made_up(Path(place))
        compare(corpus, batches, repeats, steps)


def compare(folder: Path, batches: int, repeats: int, steps: int) -> None:
    import torch

    torch.set_num_threads(1)
    loaders = {name: our_loader(folder, name, workers=0) for name in OBJECTIVES}
    runs: dict[str, Callable[[int], int]] = {
        name: lambda step, loader=loader: len(loader.batch(step).tensors().ids)
        for name, loader in loaders.items()
    }
    runs["transformers"] = peer(folder)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, make in runs.items():
            begin = time.perf_counter()
            tokens = sum(make(turn * batches + number) for number in range(batches))
            if turn:  # the first turn fills caches
                rates[name].append(tokens / (time.perf_counter() - begin))
    middle = {name: statistics.median(values) for name, values in rates.items()}
    print(f"batches of {EXAMPLES} examples of up to {LENGTH} tokens, one thread, {repeats} turns")
    for name, rate in middle.items():
        per_batch = rate / (EXAMPLES * LENGTH)
        print(f"{name:15}{rate / 1e6:8.2f} million tokens a second, {per_batch:8,.0f} full batches")
    torch.set_num_threads(2)
    waits = {name: waiting(folder, name, steps) for name in OBJECTIVES}
    for name, (share, seconds) in waits.items():
        print(f"{name:15}training waits {share:.2%} of a step of {seconds:.2f} s")
    result = {
        "benchmark": "collate",
        "ratio": round(middle["masked blocks"] / middle["transformers"], 2),
        "ours": round(middle["masked blocks"]),
        "peer": round(middle["transformers"]),
        "unit": "tokens/s",
        "most_waiting": round(max(share for share, _ in waits.values()), 5),
    }
    print(json.dumps(result))


def objective_of(name: str):
    from clozeworks.data.examples.blocks import Blocks
    from clozeworks.objectives.masked_lm import MaskedLM
    from clozeworks.objectives.published import published

    if name == "masked blocks":  # what most people do today
        return dataclasses.replace(MaskedLM.roberta(), examples=Blocks(length=LENGTH))
    return published(name, LENGTH)


def our_loader(folder: Path, name: str, workers: int):
    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.data.examples.loader import Loader
    from clozeworks.objectives.batch import Vocabularies

    corpus = Corpus.open(folder)
    split = corpus.split()
    objective = objective_of(name)
    examples = objective.chosen_examples().arrange(split, corpus.tokenizer, 0, folder / "index")
    source = Vocabularies.of(corpus.tokenizer, split)
    return Loader(
        examples,
        lambda clean: objective.batch(clean, 0, source),
        seed=0,
        batch_size=EXAMPLES,
        workers=workers,
    )


def peer(folder: Path) -> Callable[[int], int]:
    """The collator of transformers over the same examples, as lists in memory."""
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    from clozeworks.data.corpus.corpus import Corpus

    special = Corpus.open(folder).tokenizer.special
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer" / "tokenizer.json"),
        pad_token=special.pad,
        unk_token=special.unknown,
        mask_token=special.mask,
        cls_token=special.first,
        sep_token=special.last,
    )
    collate = DataCollatorForLanguageModeling(tokenizer)
    loader = our_loader(folder, "masked blocks", workers=0)
    made = []
    for step in range(100):
        clean = loader.clean(step)
        texts = np.split(clean.ids, clean.starts[1:])
        masks = np.split(clean.special.astype(np.int64), clean.starts[1:])
        made.append(
            [
                {"input_ids": text.tolist(), "special_tokens_mask": mask.tolist()}
                for text, mask in zip(texts, masks, strict=True)
            ]
        )
    sizes = [sum(len(item["input_ids"]) for item in batch) for batch in made]

    def run(step: int) -> int:
        collate([dict(item) for item in made[step % len(made)]])
        return sizes[step % len(made)]

    return run


def waiting(folder: Path, name: str, steps: int) -> tuple[float, float]:
    """The share of a training step that is spent waiting for its batch."""
    import torch

    import clozeworks as cw
    from clozeworks.core.initialize import initialize
    from clozeworks.data.corpus.corpus import Corpus

    tokenizer = Corpus.open(folder).tokenizer
    small = cw.new(
        "bert-base",
        tokenizer,
        heads=("pooler", "vocabulary", "next_sentence"),
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    objective = objective_of(name)
    model = objective.equip(small.blueprint).build()
    initialize(model, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = our_loader(folder, name, workers=1).batches()
    waited = total = 0.0
    for step in range(steps + 2):
        begin = time.perf_counter()
        tensors = next(batches).tensors()
        ready = time.perf_counter()
        objective.loss(model, tensors).value().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step >= 2:  # the first steps start threads and fill caches
            waited += ready - begin
            total += time.perf_counter() - begin
    batches.close()
    return waited / total, total / steps


def made_up(place: Path) -> Path:
    """A corpus of made-up sentences over 8,000 words."""
    from clozeworks.data.corpus.build import build_corpus
    from clozeworks.text.training.train import train_from_iterator

    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(8000)]
    shares = 1 / np.arange(1, 8001)
    documents = []
    for _ in range(3000):
        sentences = [
            " ".join(random.choice(words, random.integers(5, 30), p=shares / shares.sum())) + "."
            for _ in range(random.integers(2, 20))
        ]
        documents.append("\n".join(sentences))
    source = place / "text.txt"
    source.write_text("\n\n".join(documents))
    tokenizer = train_from_iterator(documents[:500], kind="wordpiece", size=8000)
    return build_corpus([source], place / "corpus", tokenizer).corpus.folder


if __name__ == "__main__":
    main()

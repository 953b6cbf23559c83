"""Writing texts, side by side with transformers.generate, and CTranslate2 if it is installed.

Fresh weights of GPT-2's small shape and of T5's small shape that all sides read from the same
folder, greedy or with four beams, 64 tokens behind prompts of 64, without an end. A batch of
unequal lengths has prompts of 16 to 112 tokens; the peers pad on the left. How many tokens are the
same on all sides is told. Repetitions alternate.

    python benchmarks/generate.py [--only "gpt2, 1"] [--repeats 5] [--threads 2] [--quick]
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import apart, most_memory

NEW = 64
Texts = list[list[int]]
Write = Callable[[Texts], Texts]


@dataclass(frozen=True)
class Case:
    """What is written."""

    size: str
    lengths: tuple[int, ...]
    beams: int = 1


CASES = {
    "gpt2, 1": Case("gpt2", (64,)),
    "gpt2, 8 unequal": Case("gpt2", (16, 28, 40, 56, 64, 80, 96, 112)),
    "gpt2, 8 equal": Case("gpt2", (64,) * 8),
    "t5, 1, beam 4": Case("t5-small", (64,), 4),
    "t5, 8 unequal, beam 4": Case("t5-small", (16, 28, 40, 56, 64, 80, 96, 112), 4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="2 layers, 2 repetitions")
    options = parser.parse_args()
    if options.quick:
        options.repeats = 2
    torch.set_num_threads(options.threads)
    print(f"{NEW} tokens behind each prompt, {options.threads} threads, {options.repeats} turns")
    for name in options.only:
        measure(name, CASES[name], options)


def measure(name: str, case: Case, options: argparse.Namespace) -> None:
    """One case: all sides on the same weights and prompts, in turn."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        entries = make_model(case.size, folder, quick=options.quick)
        prompts = [random.integers(10, entries - 200, size).tolist() for size in case.lengths]
        sides: dict[str, Write] = {
            "ours": ours(folder, case.beams),
            "transformers": peer(folder, case.beams),
        }
        if anchor := ctranslate(folder, case.beams, options.threads):
            sides["ctranslate2"] = anchor
        texts = {side: write(prompts) for side, write in sides.items()}  # warm
        times: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(options.repeats):
            for side in sides if turn % 2 else reversed(sides):
                begin = time.perf_counter()
                sides[side](prompts)
                times[side].append(time.perf_counter() - begin)
    tokens = NEW * len(prompts)
    speed = {side: tokens / statistics.median(found) for side, found in times.items()}
    same = {side: same_share(texts["ours"], texts[side]) for side in sides}
    print(f"\n{name}")
    for side, value in speed.items():
        ratios = [other / own for own, other in zip(times["ours"], times[side], strict=True)]
        print(
            f"  {side:14}{value:9,.1f} tokens/s   ours is {speed['ours'] / value:.2f} times "
            f"({min(ratios):.2f} to {max(ratios):.2f}); {same[side]:.0%} of tokens the same"
        )
    result: dict[str, Any] = {
        "benchmark": "generate",
        "case": name,
        "ratio": round(speed["ours"] / speed["transformers"], 3),
        "ours": round(speed["ours"], 1),
        "peer": round(speed["transformers"], 1),
        "unit": "tokens/s",
        "peak_memory": round(most_memory()),
    }
    if "ctranslate2" in speed:
        result["ratio_ctranslate2"] = round(speed["ours"] / speed["ctranslate2"], 3)
    print(json.dumps(result), flush=True)


def same_share(left: Texts, right: Texts) -> float:
    """The share of tokens that are the same, up to the first difference of each text."""
    found = 0
    for own, other in zip(left, right, strict=True):
        pairs = zip(own, other, strict=False)
        found += next((i for i, (a, b) in enumerate(pairs) if a != b), len(own))
    return found / sum(map(len, left))


def make_model(size: str, folder: Path, *, quick: bool) -> int:
    """A folder with fresh weights, and names for all tokens; gives their number."""
    import clozeworks as cw
    from clozeworks.checkpoints import folder as folders
    from clozeworks.checkpoints.report import LoadReport
    from clozeworks.checkpoints.sentence import Pooling
    from clozeworks.core.initialize import initialize
    from clozeworks.families.family import Config, published_sizes

    family = published_sizes()[size]
    config = dict(family.published(size))
    if quick:
        config |= {"n_layer": 2} if size == "gpt2" else {"num_layers": 2, "num_decoder_layers": 2}
    parts = frozenset({"vocabulary"} if size == "gpt2" else {"vocabulary", "decoder"})
    model = family.blueprint(Config(config), parts).build()
    initialize(model, seed=0, std=0.02, stds=family.stds(model.blueprint))
    with torch.no_grad():  # so that texts do not come round to one token
        model.embeddings.tokens.weight.mul_(3)
    checkpoint = folders.Checkpoint(
        model=model.eval(),
        family=family,
        config=config,
        tokenizer=None,
        pooling=Pooling(),
        report=LoadReport(),
    )
    cw.LanguageModel(checkpoint, size).save(folder)
    entries = model.blueprint.embeddings.tokens
    name_tokens(folder, entries)
    return entries


def name_tokens(folder: Path, entries: int) -> None:
    """A tokenizer, without which CTranslate2 reads no folder."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    names = {f"t{number}": number for number in range(entries)}
    backend = Tokenizer(models.WordLevel(names, unk_token="t3"))
    PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="t3", eos_token="t1", bos_token="t1", pad_token="t0"
    ).save_pretrained(folder)


def ours(folder: Path, beams: int) -> Write:
    from clozeworks.checkpoints import folder as folders
    from clozeworks.generate.beams import Beams, search
    from clozeworks.generate.sampling import Limits, write
    from clozeworks.generate.session import DecoderSession

    model = folders.load(folder).model
    limits = Limits(max_new_tokens=NEW)

    @torch.inference_mode()
    def run(prompts: Texts) -> Texts:
        reader = DecoderSession(model, prompts, NEW, 0)
        given = prompts if model.decoder is None else [[0]] * len(prompts)
        if beams > 1:
            width = Beams(num_beams=beams)
            return [found[0].tokens for found in search(reader, given, beams=width, limits=limits)]
        texts: Texts = [[] for _ in prompts]
        for pieces in write(reader, given, limits=limits):
            for piece in pieces:
                texts[piece.row].append(piece.token)
        return texts

    return run


def peer(folder: Path, beams: int) -> Write:
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.AutoConfig.from_pretrained(folder)
    name = config.architectures[0]
    model = getattr(transformers, name).from_pretrained(folder).eval()
    settings = transformers.GenerationConfig(
        max_new_tokens=NEW,
        min_new_tokens=None,
        num_beams=beams,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        decoder_start_token_id=0,
    )
    model.generation_config = settings
    decoder = not config.is_encoder_decoder

    @torch.inference_mode()
    def run(prompts: Texts) -> Texts:
        longest = max(map(len, prompts))
        spare = [longest - len(prompt) for prompt in prompts]
        ids = torch.tensor([[0] * pad + own for pad, own in zip(spare, prompts, strict=True)])
        mask = torch.tensor(
            [[0] * pad + [1] * len(own) for pad, own in zip(spare, prompts, strict=True)]
        )
        found = model.generate(ids, attention_mask=mask, generation_config=settings)
        return [row[longest if decoder else 1 :] for row in found.tolist()]

    return run


def ctranslate(folder: Path, beams: int, threads: int) -> Write | None:
    """CTranslate2 in a process of its own: in ours, its threads would slow the other sides down."""
    if importlib.util.find_spec("ctranslate2") is None:
        return None
    return apart(ctranslate_side, folder, beams, threads)


def ctranslate_side(folder: Path, beams: int, threads: int) -> Write:
    import ctranslate2

    made = folder.with_name("ctranslate2")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(made), force=True)
    settings: dict[str, Any] = {"device": "cpu", "inter_threads": 1, "intra_threads": threads}
    common: dict[str, Any] = {"beam_size": beams, "end_token": [], "return_end_token": False}
    config = json.loads((folder / "config.json").read_text())

    def named(prompts: Texts) -> list[list[str]]:
        return [[f"t{token}" for token in prompt] for prompt in prompts]

    if config["model_type"] == "gpt2":
        generator = ctranslate2.Generator(str(made), **settings)

        def run(prompts: Texts) -> Texts:
            found = generator.generate_batch(
                named(prompts), max_length=NEW, min_length=NEW, include_prompt_in_result=False,
                sampling_topk=1, **common,
            )  # fmt: skip
            return [list(result.sequences_ids[0]) for result in found]

        return run
    translator = ctranslate2.Translator(str(made), **settings)

    def answer(prompts: Texts) -> Texts:
        found = translator.translate_batch(
            named(prompts), max_decoding_length=NEW, min_decoding_length=NEW, **common
        )
        return [[int(name[1:]) for name in result.hypotheses[0]] for result in found]

    return answer


if __name__ == "__main__":
    main()

"""The main job on a text everybody has: from Python's own documentation to a model that fills gaps.

Text, tokenizer, corpus, a small BERT trained with masked tokens and sentence pairs, and the same
gaps filled before and after; then what the pre-training bought for a labelled set of the same text.
Nothing is downloaded.
"""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.engine.callbacks import Callback
from clozeworks.errors import OutputError
from clozeworks.inference.fill import Filled
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.jobs.pretrain.recipe import Recipe, read_recipe, read_toml
from clozeworks.jobs.pretrain.starting import starting_model
from clozeworks.jobs.pretrain.summary import Pretrained
from clozeworks.jobs.quickstart.python_documentation import python_documentation
from clozeworks.jobs.quickstart.task import AREAS, SEEDS, Bought, what_it_bought
from clozeworks.language_model import LanguageModel, load
from clozeworks.runtime.devices import find_device
from clozeworks.storage.atomic import atomic_file, write_text
from clozeworks.text.training.train import train_from_iterator

TEXT, RECIPE = "python.jsonl", "recipe.toml"
TOKENIZER, CORPUS, RUN = "tokenizer", "corpus", "run"
GAPS = [
    "Return [MASK] if the object is an instance of the class, and False otherwise.",
    "If the file does not exist, an [MASK] is raised.",
    "Return a [MASK] of all the keys in the dictionary.",
    "The [MASK] statement is used to import a module.",
    "The optional [MASK] defaults to None.",
    "This function returns the number of [MASK] in the string.",
]

# What was found to learn most within two minutes on two cores: short texts, many small steps, no
# dropout, first weights larger than BERT's, which are made for a width of 768. Texts of 32 tokens
# came to a held-out loss of 5.31 in 1,000 steps, texts of 64 to 5.50, the first weights of BERT to
# 5.58, twice the rate to 5.78.
RECIPE_TEXT = """\
# The recipe of the quick start. Change it, then: clozeworks pretrain recipe.toml run=another
run = "run"
objective = "bert"      # masked tokens and next-sentence pairs
seed = 0

[model]
start = "bert-tiny"     # 2 layers, width 128
config = {initializer_range = 0.05, hidden_dropout_prob = 0.0, attention_probs_dropout_prob = 0.0}

[data]
corpus = "corpus"
stages = [{length = 32}]

[training]
steps = 3_000
batch_tokens = 1_024    # 32 texts of 32
learning_rate = 2e-3
optimizer = {kind = "adam_w", betas = [0.9, 0.98]}
schedule = {kind = "linear", warmup_steps = 100}

[logging]
every_steps = 20

[evaluation]
every_steps = 200
tokens = 20_000
"""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Started:
    """What the quick start came to."""

    folder: Path
    """Where everything is."""
    trained: Pretrained
    """The run."""
    before: list[Filled]
    """The gaps as fresh weights fill them."""
    after: list[Filled] | None
    """The same gaps, filled by the trained model."""
    bought: list[Bought] | None = None
    """What pre-training bought for a task; None if that was stopped or not asked for."""


def quickstart(
    folder: Path,
    *changes: str,
    callback: Callback,
    say: Say,
    seeds: Sequence[int] = SEEDS,
    device: str | None = None,
) -> Started:
    """Does everything, or what is left of it when it was stopped.

    Args:
        folder: Where everything goes.
        changes: Settings of the recipe to change.
        callback: Who is told about the training.
        say: Told what is done now.
        seeds: The seeds of fine-tuning; none to leave that out.
        device: Where to compute; as the recipe says if not given, and the best there is otherwise.

    Raises:
        SettingError: If this machine has no such device.
        OutputError: If the folder holds something else.
    """
    find_device(device)
    check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    corpus = _corpus(folder, say)
    if not (folder / RECIPE).exists():
        write_text(folder / RECIPE, RECIPE_TEXT)
    recipe = settled(folder, *changes)
    objective = recipe.objectives()[0][0]
    fresh = starting_model(recipe.model, objective, corpus, recipe.seed)
    before = _filled(fresh)
    say("A small BERT learns from it.")
    trained = pretrain(recipe, callback=callback, device=device)
    if trained.model is None:
        return Started(folder, trained, before, None)
    after, bought = _filled(load(trained.model)), None
    if seeds:
        say("What that bought: it learns which area of the library a docstring is about.")
        bought = what_it_bought(
            folder / AREAS, trained.model, fresh, callback=callback, seeds=seeds, device=device
        )
    return Started(folder, trained, before, after, bought)


def check_folder(folder: Path) -> None:
    """Refuses a folder that holds something else.

    Raises:
        OutputError: If the folder holds other files.
    """
    held = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if held and TEXT not in held:
        raise OutputError(f"{folder} holds {held[0]!r} already; name an empty folder or a new one.")


def settled(folder: Path, *changes: str) -> Recipe:
    """The recipe of the quick start in a folder; the one that stands there already, if any."""
    check_folder(folder)
    written = folder / RECIPE
    data = read_toml(written) if written.exists() else tomllib.loads(RECIPE_TEXT)
    data |= {"run": str(folder / RUN)}
    data["data"] = {**data.get("data", {}), "corpus": str(folder / CORPUS)}
    return read_recipe(data, changes)


def _corpus(folder: Path, say: Say) -> Corpus:
    text, path = folder / TEXT, folder / TOKENIZER
    if not text.exists():
        documents = python_documentation()
        with atomic_file(text, "w") as file:
            file.writelines(json.dumps({"text": document}) + "\n" for document in documents)
    with text.open(encoding="utf-8") as lines:
        documents = [json.loads(line)["text"] for line in lines]
    say(
        f"The text: {len(documents):,} documents, {sum(map(len, documents)):,} characters of "
        f"Python's own documentation, in {text}."
    )
    tokenizer = train_from_iterator(documents, kind="wordpiece", size=4000)
    path.mkdir(exist_ok=True)
    tokenizer.save(path)
    say(f"The tokenizer: WordPiece, {tokenizer.size:,} entries, in {path}.")
    settings = BuildSettings(sentences="wrapped", validation=0.02)
    corpus = build_corpus([text], folder / CORPUS, tokenizer, settings).corpus
    parts = corpus.manifest["splits"]
    say(
        f"The corpus: {parts['train']['tokens']:,} tokens to learn from, "
        f"{parts['validation']['tokens']:,} held out, in {folder / CORPUS}."
    )
    return corpus


def _filled(model: LanguageModel) -> list[Filled]:
    return model.fill(GAPS, top=3)

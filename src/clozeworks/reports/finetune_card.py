"""The card of a fine-tuned model: how good it is, on what, how it came about, and how to use it."""

import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clozeworks import __version__, config
from clozeworks.checkpoints.card import Card, table
from clozeworks.data.labelled.report import DataPart
from clozeworks.language_model import LanguageModel
from clozeworks.reports.pretrain_card import flat
from clozeworks.reports.summary import RunSummary, main_values, number
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import FAMILY_HEAD, Classify
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText

# What the hub calls a task, and what people do.
PIPELINES = {
    "classify": "text-classification",
    "compare": "text-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "text_to_text": "text-generation",
}
# What the hub calls a value, where that is another name than ours.
_METRICS = {
    "matthews": "matthews_correlation",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "mean_absolute_error": "mae",
    "mean_squared_error": "mse",
}
_MOST_LABELS = 50
_POINTERS = """\
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForQuestionAnswering.from_pretrained("FOLDER")
inputs = tokenizer("a question?", "a context that holds the answer", return_tensors="pt")
with torch.no_grad():
    found = model(**inputs)
begin, end = found.start_logits.argmax(), found.end_logits.argmax()
tokenizer.decode(inputs["input_ids"][0, begin : end + 1])"""


def finetuning_card(told: RunSummary, model: LanguageModel) -> Card:
    """What a fine-tuned model's card says.

    Args:
        told: What is known of the run.
        model: The model.
    """
    kind = told.recipe.task["kind"]
    family = model.family.model_type
    title = f"{family}, {model.blueprint.count():,} parameters, fine-tuned to {kind}"
    here = Path(told.recipe.model).expanduser().exists()
    metadata = {
        "library_name": "transformers" if _published(told.data.task) else "clozeworks",
        "pipeline_tag": PIPELINES[kind],
        "tags": ["clozeworks", family, kind],
        "base_model": None if here else told.recipe.model,
        "model-index": [{"name": title, "results": [_result(told)]}],
    }
    sections = [
        ("Results", _results(told)),
        ("Data", _data(told)),
        ("Training", _training(told)),
        ("Use", _use(told)),
    ]
    return Card(title, metadata, sections)


def _published(task: Any) -> bool:
    """Whether transformers answers as Clozeworks does."""
    if isinstance(task, Classify):
        return task.head == FAMILY_HEAD
    return not (isinstance(task, Tag) and task.crf)


def _names(files: Sequence[str]) -> list[str]:
    return [Path(file).name for file in files]


def _judged_by(told: RunSummary) -> str:
    """The files the values are measured on."""
    data = told.recipe.data
    names = ", ".join(_names(data.dev or data.train))
    return names if data.dev else f"{names}, a part that was not trained on"


def _result(told: RunSummary) -> dict[str, Any]:
    kind, measured, data = told.recipe.task["kind"], told.best.measured, told.recipe.data
    files = _names(data.dev or data.train)
    metrics = [
        {"type": _METRICS.get(name, name), "value": round(measured.values[name], 6), "name": name}
        for name in main_values(measured)
    ]
    return {
        "task": {"type": PIPELINES[kind], "name": kind},
        # The hub insists on a short name beside the one for people.
        "dataset": {"type": re.sub(r"\W+", "-", Path(files[0]).stem), "name": _judged_by(told)},
        "metrics": metrics,
    }


def _results(told: RunSummary) -> str:
    measured, guess = told.best.measured, told.guess
    rows = []
    for name in main_values(measured):
        ends = measured.intervals.get(name)
        row = [name, number(measured.values[name])]
        row.append("" if ends is None else f"{number(ends[0])} to {number(ends[1])}")
        there = None if guess is None else guess.measured.values.get(name)
        rows.append([*row, "" if there is None else number(there)])
    said = [
        f"{measured.count:,} items of {_judged_by(told)}. An interval holds 95 % of what comes out "
        "if items are drawn again."
    ]
    if guess is not None:
        said.append(f"Guessing is {guess.how}.")
    said += [*told.searched(), told.spread(), *told.warnings(), *measured.remarks]
    return table(["", "value", "95 % interval", "guessing"], rows) + "\n\n" + " ".join(said)


def _data(told: RunSummary) -> str:
    report = told.data.report
    parts = [("train", report.train), *([("dev", report.dev)] if report.dev else [])]
    rows = [
        [name, f"{part.rows:,}", _tokens(part), ", ".join(_names(part.files))]
        for name, part in parts
    ]
    found = [table(["part", "items", "tokens of an item, mean", "files"], rows)]
    if report.train.labels:
        shown = report.train.labels[:_MOST_LABELS]
        more = len(report.train.labels) - len(shown)
        amounts = ", ".join(f"`{each.name}` {each.share:.1%}" for each in shown)
        found.append(f"Labels: {amounts}{f' and {more:,} more' if more else ''}.")
    return "\n\n".join(found)


def _tokens(part: DataPart) -> str:
    return next((f"{each.mean:,.1f}" for each in part.lengths if each.what.endswith("tokens")), "")


def _training(told: RunSummary) -> str:
    best = told.best
    # A card is read elsewhere: the names of files say something there, their folders do not.
    plain: dict[str, Any] = config.plain(told.recipe)
    for key in ("train", "dev"):
        plain["data"][key] = _names(plain["data"][key])
    plain["model"] = Path(told.recipe.model).name if _is_folder(told) else told.recipe.model
    rows = [[f"`{path}`", f"`{_cell(value)}`"] for path, value in flat(plain) if path != "run"]
    return (
        f"Seed {best.seed}, the weights of step {best.step:,} of {best.steps:,}; {best.tokens:,} "
        f"tokens in {best.seconds / 60:,.1f} minutes. {told.frozen} Clozeworks {__version__}, "
        f"torch {torch.__version__}, Python {platform.python_version()}.\n\n"
        f"{table(['setting', 'value'], rows)}"
    )


def _is_folder(told: RunSummary) -> bool:
    return Path(told.recipe.model).expanduser().exists()


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|")


def _use(told: RunSummary) -> str:
    kind, task = told.recipe.task["kind"], told.data.task
    ours = {
        "classify": 'model.classify(["a text"])',
        "compare": 'model.compare([("one text", "another")])',
        "tag": 'model.tag(["a text"])',
        "answer": 'model.answer("a question?", "a context that holds the answer")',
        "text_to_text": 'model.text_to_text(["a text"])',
    }[kind]
    if told.data.chats and isinstance(task, TextToText):
        writing = task.writing
        search = f", num_beams={writing.num_beams}, length_penalty={writing.length_penalty}"
        ours = (
            f'model.generate("a text", chat=True, max_new_tokens={writing.max_new_tokens}'
            f"{search if writing.num_beams > 1 else ''})"
        )
    found = [f'```python\nimport clozeworks as cw\n\nmodel = cw.load("FOLDER")\n{ours}\n```']
    if _published(task):
        found += [
            f"```python\n{_theirs(kind, task, chats=told.data.chats)}\n```",
            *_differences(task),
        ]
    elif isinstance(task, Tag):
        found.append(
            "What follows what was learned, too, and stands in weights that transformers does not "
            "know: there, tags are chosen word by word and differ."
        )
    elif isinstance(task, Classify):
        found.append(
            f"The pooling is {task.pooling!r}, which is not the family's own: transformers loads "
            "the encoder only."
        )
    return "\n\n".join(found)


def _theirs(kind: str, task: Any, *, chats: bool) -> str:
    """How transformers is asked."""
    if kind == "answer":  # there is no pipeline for it any more
        return _POINTERS
    if isinstance(task, TextToText):
        return _writers(task, chats=chats)
    option, call = "", 'ask("a text")'
    if isinstance(task, Tag) and task.rules.begins:
        option = ', aggregation_strategy="first"'
    elif isinstance(task, Classify):
        options = {"number": ', function_to_apply="none"', "several": ", top_k=None"}
        option = options.get(task.problem, "")
    if kind == "compare":
        call = 'ask({"text": "one text", "text_pair": "another"})'
    return (
        "from transformers import pipeline\n\n"
        f'ask = pipeline("{PIPELINES[kind]}", "FOLDER"{option})\n{call}'
    )


def _writers(task: TextToText, *, chats: bool) -> str:
    """How transformers writes the same."""
    kind = "Seq2SeqLM" if task.between is None else "CausalLM"
    read = repr(f"{task.prefix}a text{task.between or ''}")
    said = ""
    if chats:
        said = (
            'chat = [{"role": "user", "content": "a text"}]\n'
            "said = tokenizer.apply_chat_template("
            "chat, tokenize=False, add_generation_prompt=True)\n"
        )
        # In one tower a template writes its own special tokens; an encoder is shown its end.
        read = "said" if task.between is None else "said, add_special_tokens=False"
    first = 'inputs["input_ids"].shape[1]' if task.between is not None else "0"
    beams = ""
    if task.writing.num_beams > 1:
        length = task.writing.length_penalty
        beams = f", num_beams={task.writing.num_beams}, length_penalty={length}"
    return (
        f"from transformers import AutoModelFor{kind}, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        f'model = AutoModelFor{kind}.from_pretrained("FOLDER")\n'
        f'{said}inputs = tokenizer({read}, return_tensors="pt")\n'
        f"found = model.generate(**inputs, max_new_tokens={task.writing.max_new_tokens}{beams})\n"
        f"tokenizer.decode(found[0, {first}:], skip_special_tokens=True)"
    )


def _differences(task: Any) -> list[str]:
    """Where transformers answers differently, in a sentence."""
    if isinstance(task, Tag):
        return [
            "Clozeworks reads long texts through overlapping windows and never says tags that "
            "cannot follow each other; a pipeline may differ there."
        ]
    if isinstance(task, Answer):
        return [
            "Clozeworks also reads long contexts through windows, knows when there is no answer, "
            "and never lets one end before it begins."
        ]
    return []

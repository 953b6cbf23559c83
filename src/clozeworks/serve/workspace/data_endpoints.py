"""Corpora and labelled files over HTTP: what a step sees, and what looks odd."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from threading import BoundedSemaphore
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clozeworks.data.corpus.corpus import INDEX_FOLDER, Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.data.files.compression import format_suffix
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.data.labelled.report import report_on
from clozeworks.display.corpus_batch import SeenExample, seen_examples
from clozeworks.errors import ClozeworksError
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import PUBLISHED, written
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.replies import NATIVE, RefusedRequest
from clozeworks.serve.work import Overloaded
from clozeworks.serve.workspace.run_records import sound
from clozeworks.serve.workspace.workspace import Workspace
from clozeworks.tasks.task import command_name, task_class, task_classes
from clozeworks.wording import shortened, size_in_words

_MOST_STEPS = 1 << 40
_MOST_TOKENS = 16_384
# A file is read whole before it is reported on.
LARGEST_FILE = 100 << 20
_ROWS, _LONGEST_TEXT = 20, 600
_AT_A_TIME = 2


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class BatchBody(_Query):
    """Which step of which training sees what."""

    corpus: Annotated[str, Field(max_length=4_096)]
    objective: Annotated[str, Field(max_length=10_000)] = "bert"
    step: int = Field(0, ge=0, lt=_MOST_STEPS)
    length: int | None = Field(None, ge=8, le=4_096)
    tokens: int = Field(4_096, ge=16, le=_MOST_TOKENS)
    seed: int = Field(0, ge=0, lt=1 << 63)
    split: Literal["train", "validation"] = "train"
    show: int = Field(3, ge=1, le=20)


class CheckBody(_Query):
    """A labelled file, and what its labels are for."""

    file: Annotated[str, Field(max_length=4_096)]
    task: Annotated[str, Field(max_length=100)]


def data_endpoints(workspace: Workspace) -> list[Endpoint]:
    """What can be asked about the corpora and labelled files of a workspace."""
    turns = BoundedSemaphore(_AT_A_TIME)

    @contextmanager
    def turn(call: Call) -> Iterator[None]:
        """Reading takes memory, so only some do it at a time."""
        if not turns.acquire(timeout=min(call.work.left or 30.0, 30.0)):
            raise Overloaded("other data is being read; ask again in a moment.")
        try:
            yield
        finally:
            turns.release()

    def corpora(call: Call, body: None) -> Any:
        found = workspace.look().corpora
        return {
            "corpora": [_corpus(name, folder) for name, folder in found.items()],
            "objectives": list(PUBLISHED),
        }

    def batch(call: Call, body: BatchBody) -> Any:
        folder = workspace.corpus(body.corpus)
        with turn(call):
            return {"corpus": body.corpus, **seen_step(folder, body)}

    def files(call: Call, body: None) -> Any:
        found = workspace.look().files
        return {
            "files": [{"name": name, "bytes": _size(path)} for name, path in found.items()],
            "tasks": [_task(kind) for kind in task_classes()],
        }

    def check(call: Call, body: CheckBody) -> Any:
        path = workspace.file(body.file)
        with turn(call):
            return {"file": body.file, "task": body.task, **checked_file(path, body.task)}

    def get(path: str, summary: str, answer: Any, query: Any = None) -> Endpoint:
        return Endpoint(
            path=path, summary=summary, answer=answer, dialect=NATIVE, body=query, method="GET",
            counted=False,
        )  # fmt: skip

    return [
        get("/v1/corpora", "say what corpora hold", corpora),
        get("/v1/corpora/batch", "show what a step of training sees", batch, BatchBody),
        get("/v1/files", "say which labelled files there are", files),
        get(
            "/v1/files/check",
            "say what a labelled file holds, and what looks odd",
            check,
            CheckBody,
        ),
    ]


def _corpus(name: str, folder: Path) -> dict[str, Any]:
    try:
        manifest = Corpus.open(folder).manifest
    except ClozeworksError as error:
        return {"name": name, "problem": str(error)}
    return {
        "name": name,
        "tokenizer": {key: manifest["tokenizer"][key] for key in ("kind", "size")},
        "splits": {
            split: {
                **{key: each[key] for key in ("documents", "sentences", "tokens")},
                "words": each["counts"]["words"],
                "unknown": each["counts"]["unknown"],
                "sentence_lengths": each["sentence_lengths"],
                "document_lengths": each["document_lengths"],
            }
            for split, each in manifest["splits"].items()
        },
    }


def seen_step(folder: Path, asked: BatchBody) -> dict[str, Any]:
    """What a step of training sees.

    Raises:
        ClozeworksError: If the corpus or the objective cannot be used.
    """
    opened = Corpus.open(folder)
    part = opened.split(asked.split)
    chosen = written(asked.objective, asked.length)
    examples = chosen.chosen_examples().arrange(
        part, opened.tokenizer, asked.seed, opened.folder / INDEX_FOLDER
    )
    source = Vocabularies.of(opened.tokenizer, part)
    loader = Loader(
        examples,
        lambda clean: (clean, chosen.batch(clean, asked.seed, source)),
        seed=asked.seed,
        batch_tokens=asked.tokens,
        workers=0,
    )
    clean, batch = loader.batch(asked.step)
    known = examples if part.documents > 1 else None
    seen = seen_examples(clean, batch, opened.tokenizer, asked.show, known)
    return {
        "step": asked.step,
        "epoch": loader.epoch_of(asked.step),
        "examples_of_step": len(clean) // batch.views,
        "tokens_of_step": len(batch.ids),
        "asked": {name: int(number) for name, number in batch.counts().items()},
        "mask": opened.tokenizer.special.mask,
        "examples": [_example(each) for each in seen],
    }


def _example(example: SeenExample) -> dict[str, Any]:
    def tokens(several: Any) -> list[list[str | None]]:
        return [[each.shown, each.state, each.original] for each in several]

    return {
        "number": example.number,
        "epoch": example.epoch,
        "index": example.index,
        "tokens": tokens(example.tokens),
        "written": tokens(example.written),
        "targets": list(example.targets),
    }


def _task(kind: str) -> dict[str, Any]:
    item: type[Item] = task_class(kind).item_type
    return {"name": command_name(kind), "summary": task_class(kind).summary, "unit": item.unit}


def checked_file(path: Path, task: str) -> dict[str, Any]:
    """What a labelled file holds, and what looks odd: the report of `data check`, and some rows.

    Raises:
        RefusedRequest: If it is too large to be read for a page, or there is no such task.
        ClozeworksError: If it cannot be read.
    """
    kinds = {command_name(kind): kind for kind in task_classes()}
    if task not in kinds:
        known = ", ".join(kinds)
        raise RefusedRequest(422, f"task is {shortened(task)!r}; known: {known}.")
    by_hand = f"use clozeworks data check {path.name} --task {task}"
    size = _size(path)
    if size > LARGEST_FILE:
        raise RefusedRequest(
            413, f"{path.name} has {size_in_words(size)}, more than is read for a page; {by_hand}."
        )
    if path.suffix.lower() != format_suffix(path):
        raise RefusedRequest(
            413, f"{path.name} is compressed, and may become of any size; {by_hand}."
        )
    data = read_items([path], task_class(kinds[task]).item_type, Reading(), bad=BadRows(skip=True))
    report = asdict(report_on(data))
    found = {
        "report": report,
        "rows": [
            {
                "source_location": item.source_location,
                "texts": [shortened(text, _LONGEST_TEXT) for text in item.texts],
                "labels": [shortened(str(each), _LONGEST_TEXT) for each in islice(item.labels, 50)],
            }
            for item in data.items[:_ROWS]
        ],
    }
    return sound(found)  # type: ignore[no-any-return]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

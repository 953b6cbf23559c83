"""`clozeworks index`: make texts searchable."""

import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.documents import IndexedOptions, build
from clozeworks.cli.inputs import check_minimum
from clozeworks.errors import MISSING, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.jobs.search.index import Index
    from clozeworks.search.writer import AddedCounts

app = App(name="clozeworks index", help_format="plaintext", version_flags=[])


@app.default
def index(
    *inputs: str,
    model: Annotated[str | None, Parameter(alias="-m")] = None,
    out: Annotated[Path, Parameter(alias="-o")],
    remove: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    prune: Annotated[bool, Parameter(negative="")] = False,
    codes: Literal["int8", "binary"] | None = None,
    neighbours: Annotated[bool, Parameter(negative="")] = False,
    passage_tokens: int | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    batch_tokens: int | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    reading: IndexedOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Make texts searchable by what they mean and by their words.

    The same command again adds what is new and takes over what changed; only new texts are
    embedded. It goes on where it was stopped.

    Args:
        inputs: Files, folders or globs: .txt, .csv, .tsv, .jsonl, .parquet, compressed or not;
            .json files must be named. Other columns are kept, for conditions.
        model: A sentence model: a folder or hub name. Defaults to that of the index.
        out: The folder of the index.
        remove: The id of a document to remove; may be given several times.
        prune: Remove documents that are not in the files.
        codes: Write int8 or binary codes for a quicker first look; the best candidates are scored
            again by their vectors. How much of the exact result they find is printed.
        neighbours: Write a graph of neighbours, for a million texts or more. It needs the extra
            [search]; what it finds is printed.
        passage_tokens: The most tokens of a passage; longer texts are cut into several. Defaults to
            what the model takes, at most 512.
        query_prompt: What is put before queries: the name of a prompt in the model folder, or any
            other text. Defaults to its prompt query, or its default prompt.
        document_prompt: What is put before texts. Defaults to the prompt document, or the default.
        batch_tokens: Tokens per batch.
        overwrite: Build the index anew. What is there stays as it is until the new one is whole.
        reading: How documents are read.
        computing: Where the model computes.
    """
    from clozeworks.jobs.search.index import IndexSettings
    from clozeworks.search.state import is_index, read_state

    check_minimum(1, batch_tokens=batch_tokens, passage_tokens=passage_tokens)
    if model is None and is_index(out):
        model = read_state(out).model.name
    if not inputs:
        if remove:
            _check_effects(
                out,
                model=model,
                prune=prune,
                codes=codes,
                neighbours=neighbours,
                passage_tokens=passage_tokens,
                query_prompt=query_prompt,
                document_prompt=document_prompt,
                batch_tokens=batch_tokens,
                overwrite=overwrite,
                **_given(reading),
                **_given(computing),
            )
        _remove(out, remove)
        return
    if model is None:
        rule = "texts become vectors by a sentence model"
        raise SettingError("--model", MISSING, rule, "name one")
    settings = IndexSettings(
        passage_tokens=passage_tokens,
        query_prompt=query_prompt,
        document_prompt=document_prompt,
        codes=codes,
        neighbours=neighbours,
        batch_tokens=batch_tokens,
    )
    begin = time.monotonic()
    source = (reading or IndexedOptions()).source(inputs)
    made, counts = build(
        source,
        model,
        out,
        settings,
        computing or ComputingOptions(),
        overwrite=overwrite,
        prune=prune,
    )
    if remove:
        counts.removed += made.remove(remove)
    _report(made, counts, time.monotonic() - begin)


def _given(options: IndexedOptions | ComputingOptions | None) -> dict[str, Any]:
    """The options of a group that are not what they are by default."""
    if options is None:
        return {}
    usual = type(options)()
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _check_effects(out: Path, **settings: Any) -> None:
    """Refuses settings that are about adding documents, unless the index has them already."""
    from clozeworks.search.state import read_state

    state = read_state(out)
    has = {
        "model": state.model.name,
        "codes": state.coding and state.coding.kind,
        "neighbours": state.neighbours is not None,
        "passage_tokens": state.passage_tokens,
        "query_prompt": state.model.query_prompt,
        "document_prompt": state.model.document_prompt,
    }
    for name, value in settings.items():
        same = name in has and value == has[name]
        if name == "model" and value is not None:
            same = value == has[name] or str(Path(value).resolve()) == has[name]
        if value not in (None, False) and not same:
            rule = "it is about documents that are added, and no files are named"
            raise SettingError(name, value, rule, "name files, or leave it out")


def _remove(out: Path, ids: tuple[str, ...]) -> None:
    """Removes documents; nothing else was asked for."""
    from clozeworks.jobs.search.index import Index

    if not ids:
        rule = "there is nothing to add and nothing to remove"
        raise SettingError("FILES", MISSING, rule, "name files, or ids with --remove")
    opened = Index.open(out)
    count = opened.remove(ids)
    missing = len({*ids}) - count
    absent = f" ({missing:,} were not there)" if missing else ""
    print(f"{counted(count, 'document')} removed{absent}; {out} holds {len(opened):,}.")


def _report(made: "Index", counts: "AddedCounts", seconds: float) -> None:
    from clozeworks.search.neighbours import why_unused

    state = made.store.state
    model = state.model
    print(f"Model: {model.name}, {model.pooling}; {state.similarity} similarity.", file=sys.stderr)
    if model.query_prompt or model.document_prompt:
        prompts = f"{model.query_prompt!r} before queries, {model.document_prompt!r} before texts"
        print(f"Prompts: {prompts}.", file=sys.stderr)
    parts = [f"{counts.embedded:,} embedded"]
    parts += [f"{counts.kept:,} known"] if counts.kept else []
    parts += [f"{counts.copied:,} with a known text"] if counts.copied else []
    parts += [f"{counts.replaced:,} replaced"] if counts.replaced else []
    parts += [f"{counts.removed:,} removed"] if counts.removed else []
    passages = made.store.passages
    cut = f" in {passages:,} passages" if passages > len(made) else ""
    print(
        f"{counted(counts.documents, 'document')} read in {seconds:.1f} s: {', '.join(parts)}. "
        f"{made.folder} holds {len(made):,}{cut}, vectors of width {state.width:,}.",
        file=sys.stderr,
    )
    if not state.complete:
        print(
            f"{made.folder} is not complete: files of a command that was stopped are missing; run "
            "that again, or remove what is not in these files with --prune.",
            file=sys.stderr,
        )
    if (coding := state.coding) is not None and coding.recall is not None:
        _print_recall(f"{coding.kind} codes with rescoring", coding.recall)
    if (graph := state.neighbours) is not None and graph.recall is not None:
        _print_recall("The graph of neighbours", graph.recall)
        if (why := why_unused(graph)) is not None:
            print(why, file=sys.stderr)


def _print_recall(what: str, recall: float) -> None:
    print(
        f"{what}: {recall:.1%} of the 10 nearest that an exact search finds, with texts of the "
        "index as queries.",
        file=sys.stderr,
    )

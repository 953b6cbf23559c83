"""`clozeworks tag`: find entities, or the part of speech of every word."""

from functools import partial
from typing import TYPE_CHECKING

from cyclopts import App

from clozeworks.cli.predict import Options, Show, answer_all

if TYPE_CHECKING:
    from rich.console import Console

    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.tag import Tag, Tagged

app = App(name="clozeworks tag", help_format="plaintext", version_flags=[])


@app.default
def tag(
    model: str, source: str, /, *, scheme: str | None = None, options: Options | None = None
) -> None:
    """Give every word its tag, and name the entities the tags make.

    Long texts are read through windows, never cut. Begin and end of an entity are characters of
    the text; JSON also holds every word with its place, tag and score.

    Args:
        model: A model folder or hub name with a head for tokens.
        source: A text, a file (.txt one text per line, .csv, .tsv, .jsonl, .json, .parquet; packed
            or not), or - for the lines of standard input. Words are kept as they are where they are
            known: lists in JSON, or words in columns (.conll, .conllu, .bio and others; .txt and
            .tsv too if their lines end in tags).
        scheme: BIO, IOB1, BIOES, BMES or IO, to have tags written in another scheme than the
            model's; nothing is lost. Texts for people then have them in a line of their own.
        options: How items are read and answers written.
    """
    options = options or Options()
    options.check()
    asked, bad = options.open(source, "tag")

    from clozeworks.language_model import load
    from clozeworks.tasks.tag import Tag

    loaded = load(model)
    loaded.tag([])  # complains if the model cannot
    task = loaded.task
    assert isinstance(task, Tag)
    show = _shown(task, with_tags=scheme is not None)
    change = None if scheme is None else partial(task.in_scheme, scheme=scheme)
    if scheme is not None:
        loaded.tag([["a"]], scheme=scheme)  # complains if there is no such scheme
    answer_all(loaded, task, asked, bad, options, what="text", show=show, change=change)


def _shown(task: "Tag", *, with_tags: bool) -> Show:
    """How an answer is shown: the text with its entities, the words with their tags, or both."""
    from clozeworks.data.labelled.labels import entity_type

    entities = bool(task.rules.begins)
    types = list(dict.fromkeys(map(entity_type, task.labels)))

    def show(console: "Console", item: "Item", answer: "Tagged") -> None:
        from clozeworks.cli.display.highlight import has_colours, marked, safe

        if entities:
            finds = [(entity.begin, entity.end, entity.type) for entity in answer.entities]
            console.print(marked(answer.text, finds, types, colours=has_colours(console)))
        if with_tags or not entities:
            pairs = zip(answer.words, answer.tags, strict=True)
            console.print(" ".join(f"{safe(word)}/{safe(name)}" for word, name in pairs))

    return show

"""`clozeworks text-to-text`: write a text for each text, as a model was taught."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from cyclopts import App, Parameter

from clozeworks.cli.predict import Options, answer_all

if TYPE_CHECKING:
    from rich.console import Console

    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.text_to_text.task import Composed

app = App(name="clozeworks text-to-text", help_format="plaintext", version_flags=[])


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SourceOptions(Options):
    """How sources are read and texts written.

    Attributes:
        columns: Which columns of a file are what, by name or number: source=article. Found if not
            given. Roles: source, input, prefix, task; messages.
    """

    answers: ClassVar[str] = "texts"


@app.default
def text_to_text(model: str, source: str, /, *, options: SourceOptions | None = None) -> None:
    """Write a text for each text: summaries, translations, answers, what the model was taught.

    The prefix the model was taught with is put before each text. Answers come in the order of the
    texts, some dozens at a time. Ctrl-C keeps those that are there.

    Args:
        model: A model folder or hub name that writes: T5, GPT-2, LLaMA and their relatives.
        source: A text, a file (.txt one text per line, .csv, .tsv, .jsonl, .json, .parquet with a
            source or messages; packed or not), or - for the lines of standard input.
        options: How items are read and answers written.
    """
    options = options or SourceOptions()
    options.check(None)
    asked, bad = options.open(source, "text-to-text")

    from clozeworks.data.labelled.items import SourceItem
    from clozeworks.language_model import load

    loaded = load(model)
    task = loaded.writing_task()

    def fitting(item: "Item") -> "Item":
        """A text as the model's format takes it."""
        bare = isinstance(item, SourceItem) and item.prefix is None and item.target is None
        return task.item_of(item.source, item.place) if bare else item  # type: ignore[union-attr]

    chunks = ([fitting(item) for item in chunk] for chunk in asked.chunks)
    asked = replace(asked, chunks=chunks)
    answer_all(loaded, task, asked, bad, options, what="text", show=_show)


def _show(console: "Console", item: "Item", answer: "Composed") -> None:
    from rich.text import Text

    from clozeworks.cli.display.highlight import safe

    console.print(Text(safe(answer.text)))

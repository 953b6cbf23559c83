"""`clozeworks classify`: say what texts are about."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.predict import Options, Show, answer_all
from clozeworks.errors import SettingError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.classify import Classified

app = App(name="clozeworks classify", help_format="plaintext", version_flags=[])


@app.default
def classify(
    model: str,
    source: str,
    /,
    *,
    top: Annotated[int | None, Parameter(alias="-k")] = None,
    options: Options | None = None,
) -> None:
    """Give each text its label; or several labels, or a number, as the model was trained.

    Long texts are read through windows, never cut. Answers come in the order of the texts, and as
    soon as they are there.

    Args:
        model: A model folder or hub name with a classification head.
        source: A text, a file (.txt one text per line, .csv, .tsv, .jsonl, .json, .parquet; packed
            or not), or - for the lines of standard input.
        top: How many labels are shown, the likeliest first. If not given one is shown to people,
            and JSON holds all.
        options: How items are read and answers written.
    """
    options = options or Options()
    options.check(top)
    asked, bad = options.open(source, "classify")

    from clozeworks.language_model import load

    loaded = load(model)
    loaded.classify([])  # complains if the model cannot
    task = loaded.task
    assert task is not None
    check_top(top, getattr(task, "problem", "one"))
    answer_all(loaded, task, asked, bad, options, what="text", show=_shown(top or 1), top=top)


def check_top(top: int | None, problem: str) -> None:
    """Insists that there are labels to choose from.

    Raises:
        SettingError: The model gives a number.
    """
    if top is not None and problem == "number":
        raise SettingError(f"--top is {top}, and this model gives a number; leave --top out.")


def said(answer: "Classified") -> str:
    """A label and its score in words."""
    if isinstance(answer.label, float):
        return f"{answer.label:.3f}"
    label = ", ".join(answer.label) if isinstance(answer.label, tuple) else answer.label
    return f"{label or 'no label'}  {answer.score:.3f}"


def print_labels(console: "Console", answer: "Classified", text: "Text", top: int) -> None:
    """Prints the label before a text, and further labels below it."""
    from rich.text import Text

    from clozeworks.cli.display.highlight import safe
    from clozeworks.cli.display.records import best_scores

    console.print(Text(safe(said(answer)), style="bold").append("  ").append_text(text))
    for label, score in list(best_scores(answer.scores, top).items()) if top > 1 else []:
        console.print(f"  {score:.3f}  {safe(label)}")


def _shown(top: int) -> Show:
    def show(console: "Console", item: "Item", answer: "Classified") -> None:
        from clozeworks.cli.display.highlight import shortened

        text = getattr(item, "text", "")
        print_labels(console, answer, shortened(text, console.width - len(said(answer)) - 2), top)

    return show

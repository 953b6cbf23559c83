"""`clozeworks answer`: find the answer to a question in a text."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.predict import Options, Show, answer_all

if TYPE_CHECKING:
    from rich.console import Console

    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.answer import Answered

app = App(name="clozeworks answer", help_format="plaintext", version_flags=[])


@app.default
def answer(
    model: str,
    question: str,
    context: str | None = None,
    /,
    *,
    top: Annotated[int | None, Parameter(alias="-k")] = None,
    threshold: float | None = None,
    options: Options | None = None,
) -> None:
    """Find the stretch of a context that answers a question.

    Long contexts are read through windows, never cut. Begin and end are characters of the context;
    JSON does not repeat the context itself.

    Args:
        model: A model folder or hub name with a question-answering head.
        question: The question; or, without a context, a file of questions with their contexts
            (.csv, .tsv, .jsonl, .json also as SQuAD has it, .parquet; packed or not), or - for the
            lines of standard input with a tab between question and context.
        context: The text the answer stands in, the name of a file that holds it, or - for standard
            input.
        top: How many answers are shown, the best first. If not given one is shown to people, and
            JSON holds all that were looked at.
        threshold: Give no answer if "none" is ahead by more than this; as the model says if not
            given.
        options: How items are read and answers written.
    """
    from dataclasses import replace

    options = options or Options()
    options.check(top)
    if context is None:
        asked, bad = options.open(question, "answer")
    else:
        from clozeworks.cli.items import one_item, whole_text
        from clozeworks.data.labelled.bad_rows import BadRows

        options.check_two_texts()
        text = whole_text(context, options.encoding)
        asked, bad = one_item((question, text), "answer"), BadRows()

    from clozeworks.language_model import load
    from clozeworks.tasks.answer import Answer

    loaded = load(model)
    loaded.answer([], [])  # complains if the model cannot
    task = loaded.task
    assert isinstance(task, Answer)
    if threshold is not None:
        task = replace(task, threshold=threshold)
    task = replace(task, n_best=max(task.n_best, top or 1))
    answer_all(loaded, task, asked, bad, options, what="question", show=_shown(top or 1), top=top)


def _shown(top: int) -> Show:
    def show(console: "Console", item: "Item", answer: "Answered") -> None:
        from rich.text import Text

        from clozeworks.cli.display.highlight import around, has_colours, shortened
        from clozeworks.data.labelled.items import QuestionItem

        assert isinstance(item, QuestionItem)
        room = console.width - 9
        best = shortened(answer.text, room) if answer.text else Text("no answer")
        best.stylize("bold")
        console.print(best.append(f"  {answer.score:.3f}"))
        if answer.begin is not None and answer.end is not None:
            colours = has_colours(console)
            stretch = around(
                item.context, answer.begin, answer.end, console.width - 2, colours=colours
            )
            console.print(Text("  ").append_text(stretch))
        for each in answer.candidates[:top] if top > 1 else ():
            shown = shortened(each.text, room) if each.text else Text("no answer")
            console.print(Text(f"  {each.score:.3f}  ").append_text(shown))

    return show

"""`clozeworks compare`: say how two texts are related."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.commands.classify import check_top, print_labels, said
from clozeworks.cli.predict import Options, Show, answer_all

if TYPE_CHECKING:
    from rich.console import Console

    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.classify import Classified

app = App(name="clozeworks compare", help_format="plaintext", version_flags=[])


@app.default
def compare(
    model: str,
    source: str,
    second: str | None = None,
    /,
    *,
    top: Annotated[int | None, Parameter(alias="-k")] = None,
    options: Options | None = None,
) -> None:
    """Say how the two texts of each pair are related: entailment, paraphrase, similarity.

    If two texts do not fit together the longer one is read through windows, never cut.

    Args:
        model: A model folder or hub name with a classification head.
        source: A file of pairs (.csv, .tsv, .jsonl, .json, .parquet; packed or not), - for the
            lines of standard input with a tab between the texts, or the first of two texts.
        second: The second text.
        top: How many labels are shown, the likeliest first. If not given one is shown to people,
            and JSON holds all.
        options: How items are read and answers written.
    """
    options = options or Options()
    options.check(top)
    if second is None:
        asked, bad = options.open(source, "compare")
    else:
        from clozeworks.cli.items import one_item
        from clozeworks.data.labelled.bad_rows import BadRows

        options.check_two_texts()
        asked, bad = one_item((source, second), "compare"), BadRows()

    from clozeworks.language_model import load
    from clozeworks.tasks.classify import Classify
    from clozeworks.tasks.compare import as_compare

    loaded = load(model)
    loaded.compare([])  # complains if the model cannot
    assert isinstance(loaded.task, Classify)
    task = as_compare(loaded.task)
    check_top(top, task.problem)
    answer_all(loaded, task, asked, bad, options, what="pair", show=_shown(top or 1), top=top)


def _shown(top: int) -> Show:
    def show(console: "Console", item: "Item", answer: "Classified") -> None:
        from clozeworks.cli.display.highlight import shortened
        from clozeworks.data.labelled.items import PairItem

        assert isinstance(item, PairItem)
        half = (console.width - len(said(answer)) - 5) // 2
        both = shortened(item.first, half).append(" | ").append_text(shortened(item.second, half))
        print_labels(console, answer, both, top)

    return show

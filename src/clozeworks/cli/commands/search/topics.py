"""`clozeworks topics`: sort texts into topics."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.documents import IndexedOptions, opened
from clozeworks.cli.inputs import check_minimum
from clozeworks.wording import as_json, counted, shortened, visible

if TYPE_CHECKING:
    from clozeworks.search.topics import TextTopic

app = App(name="clozeworks topics", help_format="plaintext", version_flags=[])


@app.default
def topics(
    *inputs: Annotated[str, Parameter(required=True)],
    model: Annotated[str | None, Parameter(alias="-m")] = None,
    count: Annotated[int | None, Parameter(alias="-k")] = None,
    words: int = 8,
    examples: int = 3,
    seed: int = 0,
    index: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    reading: IndexedOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Sort texts into topics: how large each is, its typical words, and texts from its middle.

    Topics are clusters of vectors (k-means). Words are typical if they are at least three
    times as frequent in a topic as in the others (class-based TF-IDF).

    Args:
        inputs: Files, folders or globs, as for `clozeworks index`; or the folder of an index.
        model: A sentence model: a folder or hub name. Needed for files.
        count: How many topics. If not given, the number with the best silhouette on up to 2,000
            texts, from 2 to the root of half the texts, at most 50.
        words: How many words are shown of each topic.
        examples: How many texts are shown of each topic.
        seed: Where k-means begins; the same seed gives the same topics.
        index: A folder in which the index of the files is kept, for the next time.
        json: Print an object per topic, with the ids of its texts, as JSON lines.
        reading: How documents are read.
        computing: Where the model computes.
    """
    from clozeworks.search.topics import topics_of

    check_minimum(0, words=words, examples=examples, seed=seed)
    check_minimum(1, count=count)
    reading, computing = reading or IndexedOptions(), computing or ComputingOptions()
    with opened(inputs, model, index, reading, computing) as (found, _):
        made = topics_of(found.store, count, words=words, examples=examples, seed=seed)
    for number, topic in enumerate(made, 1):
        if json:
            print(as_json(topic.to_dict()))
        else:
            _show(number, topic)


def _show(number: int, topic: "TextTopic") -> None:
    print(f"{number:>3}  {counted(topic.size, 'text')}: {visible(', '.join(topic.words))}")
    for name, text in topic.examples:
        print(f"     {visible(name)}  {visible(shortened(' '.join(text.split()), 100))}")

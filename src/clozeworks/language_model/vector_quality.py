"""How good a model's sentence vectors are on labelled rows, as its folder says they are made.

Vectors are those of `embed` (pooling, prompts and further layers as the folder states), so that a
folder of any origin is measured as it is used. Each different text is embedded once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clozeworks.data.files.fields import plain_name
from clozeworks.data.labelled.columns import Column
from clozeworks.data.labelled.items import ItemLocations
from clozeworks.language_model.retrieval import DOCUMENT_PROMPTS, QUERY_PROMPTS, prompt_for
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.embed.task import Embed, Embedded
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel

# Columns whose texts are asked with, and those that are looked for. Of others, such as two
# sentences, neither is a query.
_ASKING = ("query", "question", "claim")
_FOUND = ("document", "passage", "doc", "answer", "response", "context")


def embedded_items(
    model: "LanguageModel",
    items: Sequence[EmbedItem],
    columns: Sequence[Column],
    *,
    tell: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> list[Embedded]:
    """The vectors of the texts of each item; texts that are too long are cut, and counted.

    Args:
        model: Any model that embeds.
        items: Rows with one text or several.
        columns: The columns they were read from: names such as query and document choose prompts.
        tell: Told which prompts stand before texts, and how many texts were cut.
        options: As for `embed`.
    """
    prompts = _prompts(model, columns, tell)
    locations = ItemLocations(items, "row")
    texts: dict[tuple[str, str], str] = {}
    for number, item in enumerate(items):
        for place, text in enumerate(item.texts):
            texts.setdefault((prompts[place > 0], text), locations[number])
    vectors: dict[tuple[str, str], Any] = {}
    length = model.limited(None, model.pooling.max_length)
    cut: set[tuple[str, str]] = set()
    for prompt in dict.fromkeys(prompts):
        keys = [key for key in texts if key[0] == prompt]
        if not keys:
            continue
        found = model.embed(
            [text for _, text in keys],
            prompt=prompt,
            truncate=True,
            source_locations=[texts[key] for key in keys],
            **options,
        )
        vectors |= dict(zip(keys, found, strict=True))
        if length is not None:
            before = model.prompts.texts[prompt] if prompt else ""
            encoded = model.tokenizer.encode([before + text for _, text in keys])
            cut |= {key for key, each in zip(keys, encoded, strict=True) if len(each) > length}
    if cut:
        tell(
            f"{len(cut):,} of {counted(len(texts), 'different text')} have more than {length:,} "
            "tokens; the rest of each was not read."
        )
    return [_joined(item, prompts, vectors, cut) for item in items]


def _joined(
    item: EmbedItem,
    prompts: Sequence[str],
    vectors: Mapping[tuple[str, str], Any],
    cut: set[tuple[str, str]],
) -> Embedded:
    keys = [(prompts[place > 0], text) for place, text in enumerate(item.texts)]
    return Embedded(
        np.stack([vectors[key] for key in keys]), truncated=any(key in cut for key in keys)
    )


def _prompts(
    model: "LanguageModel", columns: Sequence[Column], tell: Callable[[str], None]
) -> tuple[str, str]:
    """The names of the prompts before the first text of a row, and before the others; "" for none.

    A model that was taught with prompts has them always; of other folders only queries and
    documents have them.
    """
    names = {column.role: plain_name(column.name) for column in columns}
    taught = isinstance(model.task, Embed)
    asks = names.get("anchor") in _ASKING and names.get("positive") in _FOUND
    if not taught and not asks:
        return "", ""
    first = prompt_for(model, QUERY_PROMPTS, f"the texts of {names.get('anchor', 'anchor')}", tell)
    second = prompt_for(
        model, DOCUMENT_PROMPTS, f"the texts of {names.get('positive', 'positive')}", tell
    )
    return first, second

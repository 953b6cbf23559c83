"""Tags of one scheme written in another.

Trap: the files of CoNLL-2003 are IOB1, most copies of them BIO; convert before training.
"""

from collections.abc import Sequence
from dataclasses import replace

from clozeworks.tasks.tagging.entities import Invalid, entities_of
from clozeworks.tasks.tagging.schemes import Scheme
from clozeworks.tasks.tagging.tags import PLAIN_SPELLING, Spelling, spelling_of


def convert(
    labels: Sequence[str],
    source: Scheme,
    target: Scheme,
    *,
    spelling: Spelling | None = None,
    invalid: Invalid = "refuse",
    merge: bool = False,
) -> list[str]:
    """The tags of a sentence in another scheme; nothing is lost if they follow the rules.

    With the same scheme twice it repairs the tags, or insists on them.

    Args:
        labels: The tag of each word.
        source: The scheme they are in.
        target: The scheme that is wanted.
        spelling: How the tags are written; guessed from them if not given. Where
            the schemes differ, letters become the target's; order and separator stay.
        invalid: What becomes of tags that break the rules; see `entities_of`.
        merge: Whether entities that touch may become one where the target cannot tell them apart.

    Raises:
        InputError: A tag cannot be read or breaks the rules, or the target cannot say it.
        SettingError: One of the schemes has no entities.
    """
    spelling = spelling or spelling_of(labels) or PLAIN_SPELLING
    entities = entities_of(labels, source, spelling=spelling, invalid=invalid)
    tags = target.tags(entities, len(labels), merge=merge)
    if target != source:
        # Bare types can say nothing but IO.
        order = "before" if spelling.order == "bare" else spelling.order
        spelling = replace(spelling, order=order, letters=target.letters)
    return [spelling.write(tag) for tag in tags]

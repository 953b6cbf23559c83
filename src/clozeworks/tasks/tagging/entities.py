"""Entities of a sentence from its tags, and tags of one scheme written in another.

Tags that break the rules of their scheme are read as `conlleval` and `seqeval` read them, so that
scores can be compared with published ones; `seqeval`'s strict mode is `invalid="drop"`.

Trap: the files of CoNLL-2003 are IOB1, most copies of them BIO; convert before training.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.tagging.schemes import BIO, Scheme
from clozeworks.tasks.tagging.tags import (
    NO_TAG,
    OUTSIDE,
    PLAIN_SPELLING,
    EntitySpan,
    ParsedTag,
    Spelling,
    spelling_of,
)

Invalid = Literal["promote", "drop", "refuse"]


def entities_of(
    labels: Sequence[str],
    scheme: Scheme = BIO,
    *,
    spelling: Spelling | None = None,
    invalid: Invalid = "promote",
) -> list[EntitySpan]:
    """The entities of a sentence.

    Args:
        labels: The tag of each word.
        scheme: Whose rules count. Those of conlleval are the same for all, so the scheme matters
            only where broken rules do.
        spelling: How the tags are written; guessed from them if not given.
        invalid: What becomes of tags that break the rules: `promote` lets an entity begin
            wherever its type does (conlleval), `drop` leaves out what is not spelled right
            (seqeval's strict mode), `refuse` complains.

    Raises:
        InputError: If a tag cannot be read, or breaks the rules and that is refused.
        SettingError: If the scheme has no entities.
        UnknownName: If `invalid` is something else.
    """
    if invalid not in get_args(Invalid):
        raise UnknownName("invalid", invalid, get_args(Invalid))
    scheme.insist_on_entities()
    spelling = spelling or spelling_of(labels) or PLAIN_SPELLING
    tags = spelling.read_all(labels)
    if invalid == "promote":
        return promoted(tags)
    if invalid == "refuse":
        _insist_on_rules(tags, labels, scheme)
    return scheme.spans(tags)


def promoted(tags: Sequence[ParsedTag]) -> list[EntitySpan]:
    """The entities of a sentence as conlleval reads them; every tag but O is part of one."""
    spans = []
    begin = 0
    for index, (previous, tag) in enumerate(zip([NO_TAG, *tags], [*tags, NO_TAG], strict=True)):
        if _is_one(previous, tag):
            continue
        if previous.role != OUTSIDE:
            spans.append(EntitySpan(previous.type, begin, index))
        begin = index
    return spans


def _is_one(previous: ParsedTag, tag: ParsedTag) -> bool:
    """Says whether two neighbours belong to one entity, or both to none."""
    if previous.role == OUTSIDE or tag.role == OUTSIDE:
        return previous.role == tag.role
    return previous.role in "BI" and tag.role in "IE" and previous.type == tag.type


def _insist_on_rules(tags: Sequence[ParsedTag], labels: Sequence[str], scheme: Scheme) -> None:
    position = scheme.fault(tags)
    if position is None:
        return
    if position == len(tags):
        what = f"word {position:,}: the sentence ends with {labels[-1]}"
    elif position == 0:
        what = f"word 1: the sentence begins with {labels[0]}"
    else:
        what = f"word {position + 1:,}: {labels[position]} stands after {labels[position - 1]}"
    raise InputError(
        f"{what}; {scheme.name} does not allow it; correct the tag, choose another scheme, or "
        "read it as conlleval does with invalid='promote'."
    )


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
        spelling: How the tags are written; guessed from them if not given. Where the schemes
            differ, letters become the target's; order and separator stay.
        invalid: What becomes of tags that break the rules; see `entities_of`.
        merge: Whether entities that touch may become one where the target cannot tell them apart.

    Raises:
        InputError: If a tag cannot be read or breaks the rules, or the target cannot say it.
        SettingError: If one of the schemes has no entities.
    """
    spelling = spelling or spelling_of(labels) or PLAIN_SPELLING
    entities = entities_of(labels, source, spelling=spelling, invalid=invalid)
    tags = target.tags(entities, len(labels), merge=merge)
    if target != source:
        # Bare types can say nothing but IO.
        order = "before" if spelling.order == "bare" else spelling.order
        spelling = replace(spelling, order=order, letters=target.letters)
    return [spelling.write(tag) for tag in tags]

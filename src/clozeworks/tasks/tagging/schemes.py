"""Tag schemes: which tags may stand side by side, and which entities they spell.

Papers: Ramshaw & Marcus 1995 (IOB1); Tjong Kim Sang & Veenstra 1999 (BIO, there IOB2); Ratinov &
Roth 2009 (BIOES, there BILOU).
The idea: a scheme is three sets of roles: those that begin an entity, those that go on with it, and
those it may end with. What may follow what, what entities a sentence has, and how entities are
written all follow from them.

| scheme | two words, one word, side by side | needs |
|---|---|---|
| BIO | B I B | every entity begins with B |
| IOB1 | I I B | B only where an entity touches one of the same type |
| BIOES | B E S | ends are said too |
| BMES | B E S | the same, with M for I |
| IO | I I I | cannot tell entities of a type that touch |
| plain | NOUN VERB | no entities: parts of speech |
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.tasks.tagging.tags import (
    NO_TAG,
    NOT_TAGS,
    OUTSIDE,
    EntitySpan,
    ParsedTag,
    spelling_of,
)

_OPEN = "BI"  # roles after which an entity can go on


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules of a tag scheme."""

    name: str
    """As settings write it."""
    begins: str = ""
    """Roles that begin an entity; the first is for entities of several words."""
    follows: str = ""
    """Roles that go on with an entity."""
    ends: str = ""
    """Roles an entity may end with."""
    parts: str = ""
    """The role that begins an entity right after one of the same type, and nowhere else."""
    letters: str = "BIES"
    """What the roles B, I, E and S are written as."""

    @property
    def roles(self) -> str:
        """The roles it knows, without O."""
        return "".join(role for role in "BIES" if role in self.begins + self.follows + self.parts)

    def continues(self, previous: ParsedTag, tag: ParsedTag) -> bool:
        """Whether a tag goes on with the entity of the tag before it."""
        same = previous.type == tag.type and previous.role in _OPEN
        return same and tag.role in self.follows

    def may_begin(self, previous: ParsedTag, tag: ParsedTag) -> bool:
        """Whether a tag can begin an entity after another tag."""
        touches = previous.role != OUTSIDE and previous.type == tag.type
        return tag.role in self.begins or (touches and tag.role in self.parts)

    def may_follow(self, previous: ParsedTag, tag: ParsedTag) -> bool:
        """Whether a tag may follow another; O stands for both ends of a sentence."""
        if not self.begins or self.continues(previous, tag):
            return True
        whole = previous.role == OUTSIDE or previous.role in self.ends
        return whole and (tag.role == OUTSIDE or self.may_begin(previous, tag))

    def fault(self, tags: Sequence[ParsedTag]) -> int | None:
        """The first word whose tag breaks the rules, or the number of words if the end does."""
        for index, (previous, tag) in enumerate(zip([NO_TAG, *tags], [*tags, NO_TAG], strict=True)):
            if not self.may_follow(previous, tag):
                return index
        return None

    def spans(self, tags: Sequence[ParsedTag]) -> list[EntitySpan]:
        """The entities that are spelled as the rules want; whatever breaks them is left out.

        Raises:
            SettingError: If the scheme has no entities.
        """
        self.insist_on_entities()
        entities = []
        begin: int | None = None
        for index, (previous, tag) in enumerate(zip([NO_TAG, *tags], [*tags, NO_TAG], strict=True)):
            if begin is not None and self.continues(previous, tag):
                continue
            if begin is not None and previous.role in self.ends:
                entities.append(EntitySpan(previous.type, begin, index))
            begin = index if self.may_begin(previous, tag) else None
        return entities

    def tags(
        self, entities: Iterable[EntitySpan], length: int, *, merge: bool = False
    ) -> list[ParsedTag]:
        """The tags of a sentence from its entities.

        Args:
            entities: In any order.
            length: The words of the sentence.
            merge: Whether entities that touch may become one where the scheme cannot tell them
                apart.

        Raises:
            InputError: If entities overlap or stand outside the sentence, or the scheme cannot
                tell two of them apart.
            SettingError: If the scheme has no entities.
        """
        self.insist_on_entities()
        tags = [NO_TAG] * length
        before = EntitySpan("", 0, 0)
        for entity in sorted(entities, key=lambda entity: entity.begin_word):
            _check_words(entity, before, length)
            touches = before[::2] == (entity.type, entity.begin_word) and entity.begin_word > 0
            if touches and not merge and "B" not in self.begins and not self.parts:
                raise InputError(
                    f"words {entity.begin_word:,} and {entity.begin_word + 1:,}: two entities of "
                    f"type {entity.type!r} touch; {self.name} cannot tell them apart; choose "
                    "another scheme, or make them one with merge=True."
                )
            tags[entity.begin_word : entity.end_word] = self._entity_tags(entity, touches)
            before = entity
        return tags

    def _entity_tags(self, entity: EntitySpan, touches: bool) -> list[ParsedTag]:
        words = entity.end_word - entity.begin_word
        if words == 1 and "S" in self.begins:
            return [ParsedTag("S", entity.type)]
        first = self.parts if touches and self.parts else self.begins[0]
        roles = [first] + ["I"] * (words - 1)
        if "E" in self.follows:
            roles[-1] = "E"
        return [ParsedTag(role, entity.type) for role in roles]

    def insist_on_entities(self) -> None:
        """Complains if the scheme has no entities."""
        if not self.begins:
            raise SettingError(
                "scheme",
                self.name,
                "its tags stand alone and spell no entities",
                f"choose one of: {', '.join(known for known in SCHEMES if known != self.name)}",
            )


def _check_words(entity: EntitySpan, before: EntitySpan, length: int) -> None:
    shown = f"the entity {entity.type!r} of words {entity.begin_word + 1:,} to {entity.end_word:,}"
    if not 0 <= entity.begin_word < entity.end_word <= length:
        raise InputError(
            f"{shown} does not fit; an entity has at least one word, and the sentence has "
            f"{length:,}; correct its words."
        )
    if entity.begin_word < before.end_word:
        raise InputError(
            f"{shown} overlaps {before.type!r} of words {before.begin_word + 1:,} to "
            f"{before.end_word:,}; a word can have one tag; remove one."
        )


PLAIN = Scheme("plain")
BIO = Scheme("BIO", begins="B", follows="I", ends="BI")
IOB1 = Scheme("IOB1", begins="I", follows="I", ends="BI", parts="B")
BIOES = Scheme("BIOES", begins="BS", follows="IE", ends="ES")
BMES = Scheme("BMES", begins="BS", follows="IE", ends="ES", letters="BMES")
IO = Scheme("IO", begins="I", follows="I", ends="I")
SCHEMES = {scheme.name: scheme for scheme in (BIO, IOB1, BIOES, BMES, IO, PLAIN)}


def find_scheme(name: str, setting: str = "scheme") -> Scheme:
    """The scheme of a name; `setting` is what named it, for the message.

    Raises:
        UnknownName: If there is no such scheme.
    """
    if name not in SCHEMES:
        raise UnknownName(setting, name, SCHEMES)
    return SCHEMES[name]


def scheme_of(labels: Iterable[str]) -> str:
    """Guesses the scheme from the labels of a model.

    Labels alone cannot tell IOB1 from BIO: the answer is then BIO, which nearly every model uses.

    Raises:
        InputError: If the labels have roles, but not those of a scheme.
    """
    names = set(labels) - NOT_TAGS
    spelling = spelling_of(names)
    if spelling is None:
        return PLAIN.name
    roles = {tag.role for label in names if (tag := spelling.read(label))} - {OUTSIDE}
    if not roles:
        return PLAIN.name
    if roles <= {"B"} or (roles == {"B", "I"} and spelling.letters[1] == "I"):
        return BIO.name
    if roles == {"I"} and spelling.letters[1] == "I":
        return IO.name
    if "E" in roles and "B" not in roles:
        letters = sorted(spelling.letters["BIES".index(role)] for role in roles)
        raise InputError(
            f"the labels have the letters {', '.join(letters)}; an entity of "
            "several words would have no beginning; name the labels in one of the schemes "
            f"{', '.join(SCHEMES)}, or choose plain."
        )
    return BMES.name if spelling.letters == BMES.letters else BIOES.name


def scheme_of_sequences(sequences: Sequence[Sequence[str]]) -> str:
    """Guesses the scheme from the tags of sentences.

    They are IOB1 if some entity begins with I and B stands only after an entity of its own type.

    Raises:
        InputError: If the labels have roles, but not those of a scheme.
    """
    labels = {label for sequence in sequences for label in sequence}
    guess = scheme_of(labels)
    spelling = spelling_of(labels)
    if guess != BIO.name or spelling is None:
        return guess
    begun_inside = False
    for sequence in sequences:
        tags = [spelling.read(label) or NO_TAG for label in sequence]
        if IOB1.fault(tags) is not None:
            return BIO.name
        begun_inside = begun_inside or BIO.fault(tags) is not None
    return IOB1.name if begun_inside else BIO.name

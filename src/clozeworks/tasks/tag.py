"""Tagging: a tag for every word; entities where tags say how words belong together.

Paper: Devlin et al. 2019 (a projection of the first piece of each word); Lafferty, McCallum,
Pereira 2001 (conditional random fields).
Data: words with tags: parts of speech, or entities in BIO, IOB1, BIOES, BMES or IO.
Hides and asks: hides nothing; asks the first piece of each word for the word's tag. In a long text
each word is asked where it has most context.
Loss: -log softmax, summed over words, if wanted smoothed and weighted (`label_loss`); with `crf`
-log p of the whole sequence of tags.
Relations: tags that cannot follow each other never come out: the best valid sequence is found, with
or without trained transitions.
Example: `Tag(labels=("O", "B-PER", "I-PER"))`, with trained transitions
`{kind = "tag", labels = ["O", "B-PER", "I-PER"], crf = true}`.

Shapes: N tokens, n words, K tags.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.arrays import Float32Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.transitions import Transitions, TransitionsModule
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item, ItemLocations
from clozeworks.data.labelled.reading import Labelled
from clozeworks.errors import InputError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import spec
from clozeworks.tasks.classify import softmax
from clozeworks.tasks.labels.loss import LabelLoss
from clozeworks.tasks.labels.names import check_names, right_label
from clozeworks.tasks.metrics.labels import KnownLabels, numbered_labels
from clozeworks.tasks.metrics.measured import Measured, with_primary
from clozeworks.tasks.metrics.tags import entity_counts, entity_f1, token_accuracy
from clozeworks.tasks.results.details import (
    GOLD,
    PREDICTED,
    Detail,
    Mark,
    Mistake,
    label_details,
    marked,
)
from clozeworks.tasks.spans.windows import (
    TokenWindow,
    Windows,
    asking,
    by_item,
    first_tokens,
    offsets_of,
    read_windows,
)
from clozeworks.tasks.tagging.entities import convert, entities_of
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.tagging.schemes import (
    BIO,
    IOB1,
    Scheme,
    find_scheme,
    scheme_of,
    scheme_of_sequences,
)
from clozeworks.tasks.tagging.tags import (
    NOT_TAGS,
    PLAIN_SPELLING,
    EntitySpan,
    ParsedTag,
    Spelling,
    spelling_of,
)
from clozeworks.tasks.tagging.viterbi import (
    AllowedTransitions,
    MoveScores,
    best_path,
    transitions,
)
from clozeworks.tasks.task import (
    CommandOption,
    Decoder,
    LabelSetTask,
    Prepared,
    PublishedHeads,
    ShownPrediction,
    Target,
    TaskData,
)
from clozeworks.text.characters import is_chinese
from clozeworks.text.tokenizer.tokenizer import Tokenizer

HEAD, TRANSITIONS = "tokens", "transitions"
OUTSIDE = "O"
# The score of a tag that a word without tokens cannot have.
_UNLIKELY = -1e4


@dataclass(frozen=True)
class TaggedEntity:
    """Some words that name one thing."""

    type: str
    text: str
    begin: int
    """Its first character in the text."""
    end: int
    """The character after its last."""
    score: float
    """The mean probability of its words' tags."""


@dataclass(frozen=True)
class Tagged:
    """What a model says of the words of a text."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """Where each word stands in it."""
    tags: tuple[str, ...]
    """The tag of each word."""
    scores: tuple[float, ...]
    """The probability of each tag."""
    entities: tuple[TaggedEntity, ...]
    """What the tags name together; none for parts of speech."""
    windows: int = 1
    """Through how many windows the text was read."""
    scheme: str | None = None
    """The scheme its tags were rewritten in; None if they are in the model's own."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "entities": [dict(vars(entity)) for entity in self.entities],
            "words": list(self.words),
            "spans": list(self.spans),
            "tags": list(self.tags),
            "scores": list(self.scores),
            "windows": self.windows,
            **({} if self.scheme is None else {"scheme": self.scheme}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: WordsItem) -> "Tagged":
        """The same from what `to_dict` wrote and the item, which holds the text."""
        return cls(
            text=item.text,
            spans=tuple((begin, end) for begin, end in record["spans"]),
            tags=tuple(record["tags"]),
            scores=tuple(record["scores"]),
            entities=tuple(TaggedEntity(**entity) for entity in record["entities"]),
            windows=record["windows"],
            scheme=record.get("scheme"),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)


@spec
class Tag(LabelSetTask[WordsItem, Tagged]):
    """Gives every word a tag."""

    paper: ClassVar[str] = "Devlin et al. 2019; Lafferty et al. 2001"
    per_token: ClassVar[bool] = True
    item_type: ClassVar[type[Item]] = WordsItem
    answer_type: ClassVar[type[Any]] = Tagged
    summary: ClassVar[str] = "tag words: entities, parts of speech"
    description: ClassVar[str] = (
        "Give every word its tag, and name the entities the tags make. Long texts are read through "
        "windows, never truncated. Begin and end of an entity are characters of the text; JSON "
        "also holds every word with its position, tag and score."
    )
    title: ClassVar[str] = "Tagging of words"
    ability: ClassVar[str] = "tag words"
    architecture: ClassVar[str] = "…ForTokenClassification"
    pipeline_tag: ClassVar[str] = "token-classification"
    command_options: ClassVar[Mapping[str, CommandOption]] = {
        "scheme": CommandOption(
            str,
            "BIO, IOB1, BIOES, BMES or IO, to have tags written in another scheme than the "
            "model's. The tags are then also shown on a line of their own.",
        )
    }
    can_probe: ClassVar[bool] = True
    python_usage: ClassVar[str] = 'outputs = model.tag(["a text"])'
    head_names: ClassVar[tuple[str, ...]] = (HEAD,)

    labels: tuple[str, ...]
    """The tags in the order of the head."""
    scheme: str | None = None
    """BIO, IOB1, BIOES, BMES, IO or plain; guessed from the labels if not given."""
    crf: bool = False
    """Whether scores of transitions between tags are learned (a conditional random field)."""
    metric: str | None = None
    """What it is measured by first: f1 of entities, or token_accuracy where there are none."""
    windows: Windows = Windows()
    characters: bool = False
    """Whether tags are of single characters: a raw text is then cut into characters, not words."""
    label_loss: LabelLoss = LabelLoss()
    """How much each tag counts, and how sure a model should be of it; without crf."""

    def __post_init__(self) -> None:
        check_names(self.labels)
        self.windows.refuse_cutting("every word needs a tag")
        if self.crf:
            self.label_loss.refuse_unless_plain("crf is true")
        assert self.moves is not None  # complains about labels that are not of the scheme

    @classmethod
    def clean(
        cls, settings: Mapping[str, Any], train: Labelled, dev: Labelled | None
    ) -> tuple[Mapping[str, Any], Labelled, Labelled | None, list[str]]:
        """Tags that follow the rules of one scheme; broken ones are read as conlleval does.

        Without a scheme in the settings they stay in their own, but IOB1 becomes BIO.
        """
        scheme = find_scheme(scheme_of_sequences([item.tags or () for item in train.items]))
        if not scheme.begins:
            return {"scheme": scheme.name, **settings}, train, dev, []
        chosen = settings.get("scheme")
        target = find_scheme(chosen, "task.scheme") if chosen else BIO if scheme is IOB1 else scheme
        tags = {tag for item in train.items for tag in item.tags or ()}
        spelling = spelling_of(tags) or PLAIN_SPELLING
        used = "" if scheme is target else f"; they are used as {target.name}"
        messages = [f"The tags are {scheme.name}{used}."]
        train, broken = _in_scheme(train, scheme, target, spelling)
        if dev is not None:
            dev, more = _in_scheme(dev, scheme, target, spelling)
            broken += more
        if broken:
            messages.append(
                f"{broken:,} sentences have tags out of order, such as an entity that begins with "
                f"{spelling.write(ParsedTag('I', 'X'))}; they are read as conlleval does."
            )
        return {"scheme": target.name, **settings}, train, dev, messages

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task with every tag of the scheme for the types that occur."""
        # By now the tags follow the scheme of the settings, or their own.
        train, dev = data.train.items, data.dev.items
        name = settings.get("scheme") or scheme_of_sequences([item.tags or () for item in train])
        settings = {"scheme": name, "characters": _of_characters([*train, *dev]), **settings}
        labels = _all_tags(data.labels, find_scheme(name))
        prepared = super().prepare(settings, replace(data, labels=labels))
        if not settings["characters"]:
            return prepared
        message = "Words are single characters: raw texts will be tagged by character, too."
        return replace(prepared, messages=(message,))

    @classmethod
    def item_from(cls, texts: Any, source_location: str) -> Item:
        """Also from a list of words, which stay as they are."""
        if not isinstance(texts, list):
            return super().item_from(texts, source_location)
        return WordsItem.from_row({"words": texts}, source_location, BadRows())

    @classmethod
    def from_checkpoint(cls, published: PublishedHeads) -> "Tag | None":
        """What a token classifier's config says."""
        labels = published.labels(cls.head_names)
        return None if labels is None else cls(labels=labels)

    @cached_property
    def rules(self) -> Scheme:
        """The scheme."""
        return find_scheme(self.scheme or scheme_of(self.labels))

    @cached_property
    def moves(self) -> AllowedTransitions:
        """Which tag may follow which."""
        return transitions(self.labels, self.rules)

    @cached_property
    def spelling(self) -> Spelling | None:
        """How the tags are written."""
        return spelling_of(self.labels)

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """What follows what, if it is learned."""
        return {TRANSITIONS: Transitions(count=len(self.labels))} if self.crf else {}

    def windows_of(
        self, items: Sequence[WordsItem], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """The tokens of texts; logits are wanted for the first token of each word."""
        if self.characters:  # each a token of its own, as in the files they were learned from
            items = [
                WordsItem.of_words(item.words, source_location=item.source_location)
                for item in items
            ]
        windows = read_windows(
            tokenizer,
            [item.text for item in items],
            windows=self.windows,
            max_length=max_length,
            offsets=True,
            source_locations=ItemLocations(items, "text"),
        )
        return [
            window
            for item, several in zip(items, by_item(windows), strict=True)
            for window in asking(several, first_tokens(item.spans, offsets_of(several)))
        ]

    def as_asked(self, item: WordsItem) -> WordsItem:
        """A raw text is cut as the texts were that the model learned from."""
        return item.by_character() if self.characters and item.detected else item

    def targets(self, item: WordsItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """The number of each word's tag."""
        tags = _gold_tags(item, "give each word one")
        if len(tags) != len(item.spans):
            raise InputError(
                f"{item.source_location or 'the text'} has {len(item.spans):,} words and "
                f"{len(tags):,} tags; each word needs one; correct them."
            )
        labels = np.array([right_label(tag, self.labels, item.source_location) for tag in tags])
        targets = []
        for window in windows:
            assert window.about is not None
            tokens = np.full(len(window), -1, np.int64)
            if len(window.about):  # of two words that share a token, the first is the target
                tokens[window.wanted[::-1]] = labels[window.about[::-1]]
            targets.append(Target(tokens=tokens))
        return targets

    def settled(self, items: Sequence[WordsItem], head: HeadSpec | None = None) -> Self:
        """The same task with what depends on the training items as numbers."""
        gold = (tag for item in items for tag in item.tags or ())
        return replace(self, label_loss=self.label_loss.settled(self.labels, gold))

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """The targets are the tags of words."""
        labels = builder.clean.token_labels
        assert labels is not None
        positions = np.flatnonzero(labels >= 0)
        builder.targets[self.name] = {ANSWERS: labels[positions], "positions": positions}

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """What predicting the tags costs, word by word or sequence by sequence."""
        logits, answers = self.logits_and_labels(model, hidden_states, tensors)
        plain = self.cost(logits, answers)
        if not self.crf:
            return {self.name: plain}
        positions = tensors.targets[self.name]["positions"]
        rows = tensors.layout.rows(positions.device)[positions]
        sequences = Layout(torch.bincount(rows, minlength=len(tensors.layout)).tolist())
        likelihood: Tensor = model.heads[TRANSITIONS](logits, answers, sequences)
        return {self.name: replace(plain, total=-likelihood)}

    @property
    def takes_loss(self) -> bool:
        """With a CRF the loss is that of whole sequences."""
        return not self.crf

    def logits_and_labels(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> tuple[Tensor, Tensor]:
        """The logits of each word, (n, K), and the numbers of the right tags, (n,)."""
        part = tensors.targets[self.name]
        logits = self.logits(model, hidden_states, tensors.layout, part["positions"])
        return logits, part[ANSWERS]

    def cost(self, logits: Tensor, labels: Tensor) -> LossTerm:
        """What predicting tags costs, word by word."""
        return self.label_loss.cost(logits, labels, self.labels)

    @property
    def chooses(self) -> bool:
        """Whether each answer is a choice of its own; with a CRF they depend on each other."""
        return not self.crf

    def choices(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> Tensor:
        """The logits of each choice, (n, K)."""
        positions = tensors.targets[self.name]["positions"]
        return self.logits(model, hidden_states, tensors.layout, positions)

    def decoder(self, model: Model) -> Decoder:
        """Decodes with what the model learned about moves."""
        if not self.crf:
            return self.decode
        head = model.heads[TRANSITIONS]
        assert isinstance(head, TransitionsModule)
        arrays = [part.detach().float().cpu().numpy() for part in head.moves()]
        return partial(self.decode, learned=MoveScores(*arrays))

    def decode(
        self,
        item: WordsItem,
        windows: Sequence[TokenWindow],
        logits: Sequence[Float32Array],
        learned: MoveScores | None = None,
    ) -> Tagged:
        """The best tags that may stand in a row, and the entities they spell."""
        count = len(item.spans)
        # A word that becomes no token is outside; where there is no outside it may be anything.
        each = np.zeros((count, len(self.labels)))
        if OUTSIDE in self.labels:
            each[:, :] = _UNLIKELY
            each[:, self.labels.index(OUTSIDE)] = 0
        for window, rows in zip(windows, logits, strict=True):
            if window.about is not None and len(window.about):
                each[window.about] = rows
        if not count:
            return Tagged(item.text, (), (), (), (), len(windows))
        probabilities = softmax(each)
        path = best_path(each, self.moves, learned)
        sure = probabilities[np.arange(count), path]
        tags = tuple(self.labels[number] for number in path.tolist())
        entities = self._entities(item, tags, sure)
        return Tagged(item.text, item.spans, tags, tuple(sure.tolist()), entities, len(windows))

    def in_scheme(self, answer: Tagged, scheme: str) -> Tagged:
        """The same answer with its tags written in another scheme.

        Raises:
            UnknownName: If there is no such scheme.
            InputError: If the scheme cannot express the tags, as IO cannot tell entities that
                touch.
            SettingError: If one of the schemes has no entities.
        """
        tags = convert(answer.tags, self.rules, find_scheme(scheme), spelling=self.spelling)
        return replace(answer, tags=tuple(tags), scheme=scheme)

    def _entities(
        self, item: WordsItem, tags: Sequence[str], sure: NDArray[np.float64]
    ) -> tuple[TaggedEntity, ...]:
        if not self.rules.begins:
            return ()
        entities = []
        for entity in entities_of(tags, self.rules, spelling=self.spelling):
            begin, end = _characters(item, entity)
            score = float(sure[entity.begin_word : entity.end_word].mean())
            entities.append(TaggedEntity(entity.type, item.text[begin:end], begin, end, score))
        return tuple(entities)

    def compared(self, item: Any, answer: Tagged) -> tuple[Any, Any]:
        """The tags of the words."""
        return item.tags, answer.tags

    def measure(
        self, items: Sequence[WordsItem], answers: Sequence[Tagged], *, intervals: bool = False
    ) -> Measured:
        """F1 of entities as conlleval counts them, and the fraction of words with the right tag."""
        gold = [_gold_tags(item, "scoring needs them; add them") for item in items]
        predicted = [answer.tags for answer in answers]
        measured = token_accuracy(gold, predicted, intervals=intervals)
        if self.rules.begins:
            counts = entity_counts(self._spelled(gold), self._spelled(predicted))
            entities = entity_f1(counts, intervals=intervals)
            measured = replace(
                entities,
                values=entities.values | measured.values,
                intervals=entities.intervals | measured.intervals,
            )
        return (
            measured if self.metric is None else with_primary(measured, self.metric, "task.metric")
        )

    def baseline(
        self, train: Sequence[WordsItem], dev: Sequence[WordsItem]
    ) -> tuple[str, list[Tagged]]:
        """The most frequent tag of each word; for unknown words the most frequent of all."""
        by_word: dict[str, Counter[str]] = {}
        every: Counter[str] = Counter()
        for item in train:
            for word, tag in zip(item.words, item.tags or (), strict=False):
                by_word.setdefault(word, Counter())[tag] += 1
                every[tag] += 1
        usual = every.most_common(1)[0][0]
        best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
        tags = [tuple(best.get(word, usual) for word in item.words) for item in dev]
        pairs = zip(dev, tags, strict=True)
        predictions = [Tagged(item.text, item.spans, each, (), ()) for item, each in pairs]
        return "giving each word the tag it has most often in the training data", predictions

    def known_labels(self, items: Sequence[WordsItem], answers: Sequence[Tagged]) -> KnownLabels:
        """Scores of each type of entity, or of each tag."""
        both = [item.tags or () for item in items], [answer.tags for answer in answers]
        if not self.rules.begins:
            number = {label: index for index, label in enumerate(self.labels)}
            gold, predicted = (
                np.array([number[tag] for tags in each for tag in tags]) for each in both
            )
            return numbered_labels(gold, predicted, self.labels, "tag")
        counts = entity_counts(*map(self._spelled, both))
        return KnownLabels("type", counts.tallies.by_label(counts.types))

    def details(
        self, items: Sequence[WordsItem], answers: Sequence[Tagged], measured: Measured
    ) -> list[Detail]:
        """How well each type of entity, or each tag, is known."""
        return label_details(self.known_labels(items, answers))

    def mistakes(self, items: Sequence[WordsItem], answers: Sequence[Tagged]) -> list[Mistake]:
        """Entities that are missed, invented or wrong; or words with a wrong tag."""
        mistakes = self._entity_mistakes if self.rules.begins else self._word_mistakes
        return [*chain.from_iterable(map(mistakes, items, answers))]

    def _word_mistakes(self, item: WordsItem, answer: Tagged) -> Iterator[Mistake]:
        for number, (gold, predicted) in enumerate(zip(item.tags or (), answer.tags, strict=True)):
            if gold != predicted:
                text = marked(item.text, [Mark(*item.spans[number], PREDICTED, predicted)])
                kind, sure = f"{predicted} instead of {gold}", answer.scores[number]
                yield Mistake.of(item, kind, gold, predicted, sure, texts=(text,))

    def _entity_mistakes(self, item: WordsItem, answer: Tagged) -> Iterator[Mistake]:
        gold = entities_of(item.tags or (), self.rules, spelling=self.spelling)
        predicted = entities_of(answer.tags, self.rules, spelling=self.spelling)
        for kind, right, wrong in entity_errors(gold, predicted):
            marks, words = [], set[int]()
            for entity, role in ((right, GOLD), (wrong, PREDICTED)):
                if entity is not None:
                    marks.append(Mark(*_characters(item, entity), role, entity.type))
                    words.update(range(entity.begin_word, entity.end_word))
            sure = sum(answer.scores[word] for word in words) / len(words)
            described = _described(item, right), _described(item, wrong)
            yield Mistake.of(item, kind, *described, sure, texts=(marked(item.text, marks),))

    def shown(self, item: WordsItem, answer: Tagged, top: int = 1) -> ShownPrediction:
        """The text with its entities, or the words with their tags."""
        tags = " ".join(f"{w}/{t}" for w, t in zip(answer.words, answer.tags, strict=True))
        if not self.rules.begins:
            return ShownPrediction(lines=(tags,))
        marks = [Mark(each.begin, each.end, PREDICTED, each.type) for each in answer.entities]
        lines = () if answer.scheme is None else (tags,)
        return ShownPrediction(marked=marked(answer.text, marks), whole=True, lines=lines)

    def configured(self, **options: Any) -> "tuple[Tag, Callable[[Tagged], Tagged] | None]":
        """Tags may be written in another scheme."""
        scheme = options.get("scheme")
        if scheme is None:
            return self, None
        self.in_scheme(Tagged("", (), (), (), ()), scheme)  # complains if there is none
        return self, partial(self.in_scheme, scheme=scheme)

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """A pipeline; what follows what is not known to it."""
        if self.crf:
            return None
        option = ', aggregation_strategy="first"' if self.rules.begins else ""
        return (
            "from transformers import pipeline\n\n"
            f'pipe = pipeline("{self.pipeline_tag}", "FOLDER"{option})\noutputs = pipe("a text")'
        )

    def usage_notes(self) -> list[str]:
        """Where transformers tags differently."""
        if self.crf:
            return [
                "The model also learned which tag follows which. transformers does not know these "
                "weights: it chooses tags word by word, and its predictions differ."
            ]
        return [
            "Clozeworks reads long texts through overlapping windows and never predicts tags that "
            "cannot follow each other; a pipeline may differ there."
        ]

    def _spelled(self, sentences: Sequence[Sequence[str]]) -> list[list[EntitySpan]]:
        return [entities_of(tags, self.rules, spelling=self.spelling) for tags in sentences]


def _gold_tags(item: WordsItem, advice: str) -> tuple[str, ...]:
    if item.tags is None:
        raise InputError(f"{item.source_location or 'the text'} has no tags; {advice}.")
    return item.tags


def _in_scheme(
    data: Labelled, scheme: Scheme, target: Scheme, spelling: Spelling
) -> tuple[Labelled, int]:
    """The data with its tags in a scheme, and how many sentences had tags out of order."""
    items, broken = [], 0
    for item in data.items:
        if item.tags is not None:
            try:
                fault = scheme.fault(spelling.read_all(item.tags)) is not None
            except InputError as error:
                raise InputError(f"{item.source_location}: {error}") from error
            broken += fault
            if fault or scheme is not target:
                tags = convert(item.tags, scheme, target, spelling=spelling, invalid="promote")
                item = replace(item, tags=tuple(tags))
        items.append(item)
    return replace(data, items=items), broken


def _all_tags(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """Every tag the scheme has for the types that occur: dev may hold some that train lacks."""
    if not scheme.begins:
        return list(labels)
    spelling = spelling_of(labels) or PLAIN_SPELLING
    read = [spelling.read(label) for label in labels if label not in NOT_TAGS]
    types = sorted({tag.type for tag in read if tag is not None and tag.role != OUTSIDE})
    tags = [spelling.write(ParsedTag(role, name)) for name in types for role in scheme.roles]
    return list(dict.fromkeys([OUTSIDE, *tags]))


def _of_characters(items: Sequence[Any]) -> bool:
    """Whether words are single characters, as Chinese texts are often tagged; few may be longer."""
    words = [word for item in items for word in item.words]
    chinese, longer = sum(map(is_chinese, words)), sum(len(word) > 1 for word in words)
    return 2 * chinese > len(words) and 100 * longer <= len(words)


def _characters(item: WordsItem, entity: EntitySpan) -> tuple[int, int]:
    """Where an entity begins and ends in its text."""
    return item.spans[entity.begin_word][0], item.spans[entity.end_word - 1][1]


def _described(item: WordsItem, entity: EntitySpan | None) -> str:
    if entity is None:
        return "nothing"
    begin, end = _characters(item, entity)
    return f"{entity.type}: {item.text[begin:end]}"


def entity_errors(
    gold: Sequence[EntitySpan], predicted: Sequence[EntitySpan]
) -> list[tuple[str, EntitySpan | None, EntitySpan | None]]:
    """What is wrong with the entities of a sentence; each entity stands in one error at most.

    Returns:
        The kind of each error, the gold entity, and the predicted one.
    """
    missed = [entity for entity in gold if entity not in predicted]
    invented = [entity for entity in predicted if entity not in gold]
    errors: list[tuple[str, EntitySpan | None, EntitySpan | None]] = []
    for kind, same_words, same_type in (
        ("wrong type", True, False),
        ("wrong border", False, True),
        ("wrong type and border", False, False),
    ):
        for entity in list(missed):
            for other in invented:
                overlap = entity.begin_word < other.end_word and other.begin_word < entity.end_word
                fits = entity[1:] == other[1:] if same_words else overlap
                if fits and (not same_type or entity.type == other.type):
                    errors.append((kind, entity, other))
                    missed.remove(entity)
                    invented.remove(other)
                    break
    errors += [("missed", entity, None) for entity in missed]
    return errors + [("invented", None, entity) for entity in invented]

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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
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
from clozeworks.data.labelled.items import ItemLocations, WordsItem
from clozeworks.errors import InputError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import spec
from clozeworks.tasks.classify import softmax
from clozeworks.tasks.label_loss import LabelLoss
from clozeworks.tasks.labels import check_names, published_labels, right_label
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.windows import (
    TokenWindow,
    Windows,
    asking,
    by_item,
    first_tokens,
    offsets_of,
    read_windows,
)
from clozeworks.tasks.tagging.convert import convert
from clozeworks.tasks.tagging.entities import (
    entities_of,
    entity_counts,
    macro_scores,
    scores_by_type,
)
from clozeworks.tasks.tagging.schemes import Scheme, find_scheme, scheme_of
from clozeworks.tasks.tagging.tags import EntitySpan, Spelling, spelling_of
from clozeworks.tasks.tagging.transitions import AllowedTransitions, transitions
from clozeworks.tasks.tagging.viterbi import MoveScores, best_path
from clozeworks.tasks.task import Decoder, Target, Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer

HEAD, TRANSITIONS = "tokens", "transitions"
OUTSIDE = "O"
# The score of a tag that a word without tokens cannot have.
_UNLIKELY = -1e4


@dataclass(frozen=True)
class TaggedEntity:
    """Some words that name one thing.

    Attributes:
        type: What it is.
        text: Its characters.
        begin: The first of them in the text.
        end: Behind the last.
        score: The mean probability of its words' tags.
    """

    type: str
    text: str
    begin: int
    end: int
    score: float


@dataclass(frozen=True)
class Tagged:
    """What a model says of the words of a text.

    Attributes:
        text: The text.
        spans: Where each word stands in it.
        tags: The tag of each word.
        scores: The probability of each tag.
        entities: What the tags name together; none for parts of speech.
        windows: Through how many windows the text was read.
    """

    text: str
    spans: tuple[tuple[int, int], ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[TaggedEntity, ...]
    windows: int = 1

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.text[begin:end] for begin, end in self.spans)


@spec
class Tag(Task[WordsItem, Tagged]):
    """Gives every word a tag."""

    paper: ClassVar[str] = "Devlin et al. 2019; Lafferty et al. 2001"
    per_token: ClassVar[bool] = True

    labels: tuple[str, ...]
    """The tags in the order of the head."""
    scheme: str | None = None
    """BIO, IOB1, BIOES, BMES, IO or plain; guessed from the labels if not given."""
    crf: bool = False
    """Whether what follows what is learned, beside what may follow what."""
    metric: str | None = None
    """What it is measured by first: f1 of entities, or token_accuracy where there are none."""
    windows: Windows = Windows()
    characters: bool = False
    """Whether tags are of single characters: a raw text is then cut into characters, not words."""
    label_loss: LabelLoss = LabelLoss()
    """How much each tag counts, and how sure a model should be of it; without crf."""

    def __post_init__(self) -> None:
        check_names(self.labels)
        if self.crf:
            self.label_loss.refuse_unless_plain("crf is true")
        assert self.moves is not None  # complains about labels that are none of the scheme

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

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A score for every tag and token."""
        return frozenset({HEAD})

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """What follows what, if it is learned."""
        return {TRANSITIONS: Transitions(count=len(self.labels))} if self.crf else {}

    def windows_of(
        self, items: Sequence[WordsItem], tokenizer: Tokenizer, most: int | None
    ) -> list[TokenWindow]:
        """The tokens of texts; asked are the first pieces of words."""
        if self.characters:  # each a token of its own, as in the files they were learned from
            items = [WordsItem.of_words(item.words, place=item.place) for item in items]
        found = read_windows(
            tokenizer,
            [item.text for item in items],
            windows=self.windows,
            most=most,
            offsets=True,
            places=ItemLocations(items, "text"),
        )
        return [
            window
            for item, own in zip(items, by_item(found), strict=True)
            for window in asking(own, first_tokens(item.spans, offsets_of(own)))
        ]

    def as_asked(self, item: WordsItem) -> WordsItem:
        """A raw text is cut as the texts were that the model learned from."""
        return item.by_character() if self.characters and item.found else item

    def targets(self, item: WordsItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """The number of each asked word's tag."""
        if item.tags is None:
            raise InputError(f"{item.place or 'the text'} has no tags; give each word one.")
        if len(item.tags) != len(item.spans):
            raise InputError(
                f"{item.place or 'the text'} has {len(item.spans):,} words and "
                f"{len(item.tags):,} tags; each word needs one; correct them."
            )
        labels = np.array([right_label(tag, self.labels, item.place) for tag in item.tags])
        found = []
        for window in windows:
            assert window.about is not None
            tokens = np.full(len(window), -1, np.int64)
            if len(window.about):  # of two words that share a token, the first is asked
                tokens[window.wanted[::-1]] = labels[window.about[::-1]]
            found.append(Target(tokens=tokens))
        return found

    def settled(self, items: Sequence[WordsItem]) -> Self:
        """The same task with what depends on the training items as numbers."""
        given = (tag for item in items for tag in item.tags or ())
        return replace(self, label_loss=self.label_loss.settled(self.labels, given))

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks for the tags of words."""
        labels = builder.clean.token_labels
        assert labels is not None
        places = np.flatnonzero(labels >= 0)
        builder.targets[self.name] = {ANSWERS: labels[places], "places": places}

    def losses(self, model: Model, hidden: Tensor, tensors: BatchTensors) -> dict[str, LossTerm]:
        """What naming the tags costs, word by word or sequence by sequence."""
        part = tensors.targets[self.name]
        answers, places = part[ANSWERS], part["places"]
        scores = self.scores(model, hidden, tensors.layout, places)
        plain = self.label_loss.cost(scores, answers, self.labels)
        if not self.crf:
            return {self.name: plain}
        rows = tensors.layout.rows(places.device)[places]
        sequences = Layout(torch.bincount(rows, minlength=len(tensors.layout)).tolist())
        likelihood: Tensor = model.heads[TRANSITIONS](scores, answers, sequences)
        return {self.name: replace(plain, total=-likelihood)}

    @property
    def chooses(self) -> bool:
        """Whether each answer is a choice of its own; with a CRF they depend on each other."""
        return not self.crf

    def choices(self, model: Model, hidden: Tensor, tensors: BatchTensors) -> Tensor:
        """The scores of each choice, (n, K)."""
        return self.scores(model, hidden, tensors.layout, tensors.targets[self.name]["places"])

    def scores(
        self, model: Model, hidden: Tensor, layout: Layout, asked: Tensor | None = None
    ) -> Tensor:
        """A score for each tag, (n, K)."""
        return model.head(HEAD).logits(hidden, layout, asked)

    def decoder(self, model: Model) -> Decoder:
        """Decodes with what the model learned about moves."""
        if not self.crf:
            return self.decode
        head = model.heads[TRANSITIONS]
        assert isinstance(head, TransitionsModule)
        learned = head.moves()
        arrays = [part.detach().float().cpu().numpy() for part in learned]
        return partial(self.decode, learned=MoveScores(*arrays))

    def decode(
        self,
        item: WordsItem,
        windows: Sequence[TokenWindow],
        scores: Sequence[Float32Array],
        learned: MoveScores | None = None,
    ) -> Tagged:
        """The best tags that may stand in a row, and the entities they spell."""
        count = len(item.spans)
        # A word that becomes no token is outside; where there is no outside it may be anything.
        each = np.zeros((count, len(self.labels)))
        if OUTSIDE in self.labels:
            each[:, :] = _UNLIKELY
            each[:, self.labels.index(OUTSIDE)] = 0
        for window, rows in zip(windows, scores, strict=True):
            if window.about is not None and len(window.about):
                each[window.about] = rows
        if not count:
            return Tagged(item.text, (), (), (), (), len(windows))
        shares = softmax(each)
        path = best_path(each, self.moves, learned)
        sure = shares[np.arange(count), path]
        tags = tuple(self.labels[number] for number in path.tolist())
        entities = self._entities(item, tags, sure)
        return Tagged(item.text, item.spans, tags, tuple(sure.tolist()), entities, len(windows))

    def in_scheme(self, answer: Tagged, scheme: str) -> Tagged:
        """The same answer with its tags written in another scheme.

        Raises:
            UnknownName: There is no such scheme.
            InputError: It cannot say what was found, as IO cannot tell entities that touch.
            SettingError: One of the schemes has no entities.
        """
        tags = convert(answer.tags, self.rules, find_scheme(scheme), spelling=self.spelling)
        return replace(answer, tags=tuple(tags))

    def _entities(
        self, item: WordsItem, tags: Sequence[str], sure: NDArray[np.float64]
    ) -> tuple[TaggedEntity, ...]:
        if not self.rules.begins:
            return ()
        found = []
        for kind, first, end in entities_of(tags, self.rules, spelling=self.spelling):
            begin, last = item.spans[first][0], item.spans[end - 1][1]
            score = float(sure[first:end].mean())
            found.append(TaggedEntity(kind, item.text[begin:last], begin, last, score))
        return tuple(found)

    def measure(
        self, items: Sequence[WordsItem], answers: Sequence[Tagged], *, intervals: bool = False
    ) -> Measured:
        """F1 of entities as conlleval counts them, and the share of words with the right tag."""
        from clozeworks.tasks.metrics.bootstrap import f1_from_counts
        from clozeworks.tasks.metrics.glue import with_primary
        from clozeworks.tasks.metrics.tags import token_accuracy

        gold = [_given(item) for item in items]
        said = [answer.tags for answer in answers]
        measured = token_accuracy(gold, said, intervals=intervals)
        if self.rules.begins:
            counts = entity_counts(self._spelled(gold), self._spelled(said))
            entities = f1_from_counts(counts.table.sum(axis=1), intervals=intervals)
            by_type = {f"f1 {kind}": each.f1 for kind, each in scores_by_type(counts).items()}
            measured = replace(
                entities,
                values={
                    **entities.values,
                    "macro_f1": macro_scores(counts).f1,
                    **by_type,
                    **measured.values,
                },
                intervals={**entities.intervals, **measured.intervals},
            )
        return measured if self.metric is None else with_primary(measured, self.metric)

    def _spelled(self, sentences: Sequence[Sequence[str]]) -> list[list[EntitySpan]]:
        return [entities_of(tags, self.rules, spelling=self.spelling) for tags in sentences]

    def settings(self) -> Mapping[str, Any]:
        """Labels as published configs state them."""
        return published_labels(self.labels)


def _given(item: WordsItem) -> tuple[str, ...]:
    if item.tags is None:
        raise InputError(f"{item.place or 'the text'} has no tags; scoring needs them; add them.")
    return item.tags

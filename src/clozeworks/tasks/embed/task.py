"""Sentence embeddings: texts that mean the same get vectors that are near each other.

Paper: Reimers & Gurevych 2019 (Sentence-BERT); Gao et al. 2021 (SimCSE, and GradCache for steps
larger than memory).
Data: pairs, triplets, scores, classes, or texts alone (`items.py` has a table).
Hides and asks: hides nothing; compares the vectors of all texts of a step.
Loss: what `loss` says; the usual one of the rows if it is not given (`losses/`).
Relations: `Compare` and `Rerank` read two texts together, which is more exact and much slower.
Example: `Embed(loss=MultipleNegativesRanking())`.

Shapes: B texts, N tokens, W width.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from clozeworks import config as settings_reader
from clozeworks import registry
from clozeworks.arrays import Float32Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooling import pool
from clozeworks.core.heads.sentence_vectors import NAME as SENTENCE
from clozeworks.core.heads.sentence_vectors import (
    TF_IDF,
    SentenceVectors,
    VectorStep,
    check_poolings,
)
from clozeworks.core.heads.token_weights import inverse_document_frequencies
from clozeworks.core.layout import Layout
from clozeworks.core.loss import Loss
from clozeworks.core.model import Model
from clozeworks.data.labelled.items import Item, ItemLocations
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.objectives.batch import BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import DropoutRate, PositiveInt, spec
from clozeworks.tasks.embed.class_pairs import ClassPairs
from clozeworks.tasks.embed.items import KINDS, EmbedItem
from clozeworks.tasks.embed.losses import EmbeddingLoss, StepTexts
from clozeworks.tasks.embed.measures import check_measurable, measure_vectors, unit_vectors
from clozeworks.tasks.embed.mistakes import mistakes_about
from clozeworks.tasks.metrics.measured import Measured, with_primary
from clozeworks.tasks.results.details import Detail, Mistake, ScatterPlot
from clozeworks.tasks.spans.windows import TokenWindow, Windows, read_windows
from clozeworks.tasks.task import (
    Prepared,
    PublishedHeads,
    ShownPrediction,
    StartingModel,
    StatedVectors,
    Target,
    Task,
    TaskData,
    with_kind,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

USUAL_LOSSES = {
    "pairs": "multiple_negatives_ranking",
    "tuples": "multiple_negatives_ranking",
    "texts": "multiple_negatives_ranking",
    "groups": "multiple_negatives_ranking",
    "scores": "cosent",
    "judged": "contrast",
    "classes": "softmax_nli",
    "vectors": "vector_distillation",
    "lists": "margin_mse",
}
"""The loss of each kind of rows, where none is named."""

# What BERT drops.
_DROPOUT = 0.1
# What is known of each text in a batch.
KNOWN = "texts"
_KEY_BITS = 52  # as many as a float64 holds exactly


@dataclass(frozen=True)
class Embedded:
    """The vectors of the texts of an item."""

    vectors: Float32Array
    """A row for each text."""
    windows: int = 1
    truncated: bool = False
    """Whether a text was cut."""

    @property
    def similarities(self) -> list[float]:
        """The cosine of the first text with each of the others."""
        wide = self.vectors.astype(np.float64)
        unit = wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-12)
        found: list[float] = (unit[1:] @ unit[0]).tolist()
        return found

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it: what was compared, or the vector of a text alone."""
        if len(self.vectors) > 1:
            return {"similarity": self.similarities}
        cut = {"truncated": True} if self.truncated else {}
        return {"vector": self.vectors[0].tolist(), **cut}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Embedded":
        """The same from what `to_dict` wrote of a text alone.

        Raises:
            UnsupportedError: If texts were compared; of these their vectors are not written.
        """
        if "vector" not in record:
            raise UnsupportedError(
                "the record holds how similar texts are, and not their vectors; embed each text."
            )
        vectors = np.array([record["vector"]], np.float32)
        return cls(vectors, truncated=record.get("truncated", False))


@spec
class Embed(Task[EmbedItem, Embedded]):
    """Gives texts of one meaning vectors that are near each other."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"
    item_type: ClassVar[type[Item]] = EmbedItem
    answer_type: ClassVar[type[Any]] = Embedded
    summary: ClassVar[str] = "turn texts into vectors that can be compared"
    description: ClassVar[str] = "Turn texts into vectors that can be compared."
    title: ClassVar[str] = "Sentence embeddings"
    ability: ClassVar[str] = "embed texts"
    architecture: ClassVar[str] = "any encoder"
    pipeline_tag: ClassVar[str] = "sentence-similarity"
    can_truncate: ClassVar[bool] = True
    can_augment: ClassVar[bool] = False
    texts_apart: ClassVar[bool] = True
    usual_epochs: ClassVar[float] = 1.0
    usual_batch_size: ClassVar[int] = 64
    kinds_from_rows: ClassVar[frozenset[str]] = frozenset({"loss"})
    teaches: ClassVar[Mapping[str, str]] = {
        "query, document (anchor, positive)": "multiple_negatives_ranking",
        "the same with negative, or negative_1, negative_2 …": "the same, with hard negatives",
        "sentence1, sentence2, score": "cosent, or cosine_similarity",
        "sentence1, sentence2, label of 0 or 1": "contrast",
        "premise, hypothesis, label": "softmax_nli",
        "text, label": "pairs of one label, ranked",
        "text": "each text and itself, ranked (SimCSE); or task.loss.kind=tsdae",
        "text, teacher (a vector)": "vector_distillation",
        "query, positive, negative, teacher (scores)": "margin_mse, or list_kl",
    }
    python_usage: ClassVar[str] = 'vectors = model.embed(["a text", "another"])'

    # The field is a person's word; the method of this name that objectives have is not called.
    loss: EmbeddingLoss | None = None  # type: ignore[assignment]
    """What vectors cost; what suits the rows if not given."""
    pooling: tuple[str, ...] = ()
    """How the tokens of a text become its vector: first, mean, max, mean_sqrt_length,
    weighted_mean, last, several of them side by side; or attention_mean, whose weights are learned,
    or tf_idf_mean, whose weights are counted in the texts to learn from. As the model folder says
    if not given."""
    steps: tuple[VectorStep, ...] | None = None
    """What happens to a vector after pooling, such as {kind = "dense", width = 256}; as the model
    folder says if not given."""
    normalize: bool = True
    """Whether saved models scale vectors to length 1."""
    query_prompt: str = ""
    """Text put before each anchor."""
    document_prompt: str = ""
    """Text put before all others."""
    dropout: DropoutRate | None = None
    """How much is dropped in training; as the model says if not given, but 0.1 where texts are
    compared with themselves and the model drops nothing."""
    windows: Windows = Windows(keep="first")
    widths: tuple[PositiveInt, ...] = ()
    """So many of the first dimensions are measured, too; those that a Matryoshka loss teaches."""
    metric: str | None = None
    """What it is measured by first; the usual one of the rows if not given."""

    def __post_init__(self) -> None:
        if self.pooling:
            check_poolings(self.pooling)
        if self.windows.keep == "all":
            rule = "a text has one vector, so it is read in one window"
            raise SettingError("windows.keep", "all", rule, "use first, last or both")

    # From rows to items.

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task with the loss that suits the rows, and rows that suit the loss."""
        kind = data.train.kind
        chosen = with_kind(settings, "loss", USUAL_LOSSES[kind])
        task: Embed = settings_reader.read(Task, chosen, "task")
        loss = task.loss
        assert loss is not None
        if kind not in loss.takes:
            able = [
                name
                for name, each in registry.specs(EmbeddingLoss).items()
                if isinstance(takes := getattr(each, "takes", None), frozenset) and kind in takes
            ]
            rule = f"the rows hold {KINDS[kind]}"
            advice = f"use {' or '.join(sorted(able))}" if able else "give other rows"
            raise SettingError("loss.kind", registry.kind(type(loss)), rule, advice)
        train: Sequence[EmbedItem] = data.train.items
        messages = [f"The rows hold {KINDS[kind]}: the loss is {registry.kind(type(loss))}."]
        train, more, pairs = _rows_for(train, kind, rebuilt=loss.rebuilds)
        dev, about_dev = measurable(data.dev.items)
        own = data.model.pooling
        usual = () if own.stated else loss.usual_pooling
        pooling = task.pooling or usual or tuple(own.modes)
        steps = own.steps if task.steps is None and pooling == own.modes else task.steps or ()
        task = replace(task, pooling=pooling, steps=steps)
        loss = loss.settled_by(train).fitted_to(task.width(data.model.blueprint))
        task = replace(task, loss=loss, widths=task.widths or loss.cut_to)
        messages += [*more, *about_dev]
        if kind == "texts" and not loss.rebuilds:
            if task.dropout is None and not data.model.model.drops:
                task = replace(task, dropout=_DROPOUT)
                messages.append(
                    f"The model drops nothing, so a text and itself would be equal: {_DROPOUT} is "
                    "dropped in training (task.dropout)."
                )
            elif task.dropout == 0:
                rule = "a text is compared with itself, and nothing would tell the two apart"
                raise SettingError("dropout", task.dropout, rule, "raise it, or leave it out")
        weights: dict[str, Tensor] = {}
        if pooling == (TF_IDF,) != own.modes:
            texts = list(dict.fromkeys(text for item in data.train.items for text in item.texts))
            plain = data.model.tokenizer
            encoded = (plain.lowercased if own.lowercase else plain).encode(texts)
            entries = data.model.blueprint.embeddings.tokens
            counts = inverse_document_frequencies((each.ids for each in encoded), entries)
            weights = {f"heads.{SENTENCE}.pooling.weights": counts}
            messages.append(
                f"How much a token counts was counted in {counted(len(texts), 'text')}."
            )
        return Prepared(
            task,
            train,
            dev,
            tuple(messages),
            vectors=task.stated(),
            weights=weights,
            change=pairs,
        )

    @property
    def chain(self) -> SentenceVectors:
        """From hidden states to vectors, but for the last scaling, which losses do themselves."""
        return SentenceVectors(modes=self.pooling or ("mean",), steps=self.steps or ())

    def width(self, blueprint: Blueprint) -> int:
        """How many dimensions a vector has."""
        width = blueprint.width * len(self.chain.modes)
        for step in self.chain.steps:
            width = step.output(width)
        return width

    def stated(self) -> StatedVectors:
        """What a model folder states about its vectors."""
        prompts = {"query": self.query_prompt, "document": self.document_prompt}
        said = {name: prompt for name, prompt in prompts.items() if prompt}
        return StatedVectors(
            self.chain.modes, self.chain.steps, self.normalize, self.windows.length, said
        )

    @classmethod
    def without_training(cls, model: StartingModel) -> "Embed | None":
        """Any model has vectors, made as its folder says."""
        own = model.pooling
        length = min(filter(None, (own.max_length, model.max_length)), default=None)
        return cls(
            pooling=own.modes,
            steps=own.steps,
            normalize=own.normalize,
            windows=Windows(keep="first", length=length),
        )

    def fitted(self, published: PublishedHeads) -> Self | None:
        """Vectors need no head."""
        return self

    def to_save(self) -> Self:
        """Without the loss, and what else only training needs."""
        return replace(self, loss=None, dropout=None)

    @property
    def wants_distinct_texts(self) -> bool:
        """Whether the texts of other rows are negatives."""
        return self.loss is not None and self.loss.in_batch

    @property
    def loss_over_step(self) -> bool:
        """Whether vectors are compared; none are where texts are written again."""
        return not self._rebuilds

    @property
    def knows_words(self) -> bool:
        """Whether words are deleted."""
        return self._rebuilds

    @property
    def _rebuilds(self) -> bool:
        return self.loss is not None and self.loss.rebuilds

    @property
    def guide(self) -> str:
        """The guide of the loss."""
        return "" if self.loss is None else self.loss.guided_by

    @property
    def head(self) -> str:
        """It has none."""
        return ""

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The chain that makes vectors, where it has weights, and what the loss learns itself."""
        chain = self.chain
        heads: dict[str, HeadSpec] = {SENTENCE: chain} if chain.steps or chain.has_weights else {}
        return (
            heads
            if self.loss is None
            else heads | self.loss.heads(self.width(blueprint), blueprint)
        )

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """Those that its loss learns with."""
        return frozenset() if self.loss is None else self.loss.required_heads

    def reads_first(self, model: Model) -> bool:
        """Where that is the pooling."""
        return {*self.chain.modes} == {"first"}

    # From items to vectors.

    def windows_of(
        self, items: Sequence[EmbedItem], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """A window for each text of each item, the anchor's first."""
        owners = [(number, place) for number, item in enumerate(items) for place in _places(item)]
        texts = [self._prompted(items[number].texts[place], place) for number, place in owners]
        locations = ItemLocations(items, "row")
        windows = read_windows(
            tokenizer,
            texts,
            windows=self.windows,
            max_length=max_length,
            source_locations=[locations[number] for number, _ in owners],
        )
        return [
            replace(window, item=number, first=place)
            for window, (number, place) in zip(windows, owners, strict=True)
        ]

    def _prompted(self, text: str, place: int) -> str:
        return (self.document_prompt if place else self.query_prompt) + text

    def targets(self, item: EmbedItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """What is known of each text: its role, the row's label and group, and the text itself."""
        label = 0.0 if self.loss is None else self.loss.number_of(item.label)
        group = _key(item.group or item.anchor)
        several = []
        for place in _places(item):
            said = _said(item, place)
            known = [float(place), label, group, _key(item.texts[place]), *said]
            several.append(Target(label=np.array(known, np.float64)))
        return several

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """States what is known of each text; or damages it, and asks for all of it."""
        assert builder.clean.labels is not None
        if self._rebuilds:
            assert self.loss is not None
            builder.targets[self.name] = self.loss.damage(builder, rng.stream(self.name))
        else:
            builder.targets[self.name] = {KNOWN: builder.clean.labels}

    def logits(
        self,
        model: Model,
        hidden_states: Tensor,
        layout: Layout,
        positions: Tensor | None = None,
        ids: Tensor | None = None,
    ) -> Tensor:
        """The vector of each text, (B, W)."""
        if SENTENCE in model.heads:
            vectors: Tensor = model.heads[SENTENCE](hidden_states, layout, ids=ids)
            return vectors
        return pool(hidden_states, layout, self.chain.modes)

    # A loss over vectors.

    def loss_of_vectors(self, model: Any, vectors: Tensor, known: Mapping[str, Tensor]) -> Loss:
        """What the vectors of a step cost."""
        assert self.loss is not None
        return Loss({self.name: self.loss.cost(model, vectors, StepTexts.of(known[KNOWN]))})

    def batch_loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """What texts cost that are written again from their vectors."""
        assert self.loss is not None
        vectors = self.outputs(model, tensors)
        return Loss({self.name: self.loss.rebuilt(model, vectors, tensors.targets[self.name])})

    # Answers.

    def decode(
        self, item: EmbedItem, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> Embedded:
        """The vectors of its texts, scaled if those of the saved model are."""
        vectors = np.stack(logits)
        if self.normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return Embedded(vectors, truncated=any(window.dropped for window in windows))

    def measure(
        self,
        items: Sequence[EmbedItem],
        answers: Sequence[Embedded],
        *,
        intervals: bool = False,
    ) -> Measured:
        """By what is known of the texts; see `measures.py`."""
        vectors = [answer.vectors for answer in answers]
        measured = measure_vectors(items, vectors, intervals=intervals)
        full = vectors[0].shape[1]
        for width in sorted({each for each in self.widths if each < full}, reverse=True):
            cut = measure_vectors(items, [each[:, :width] for each in vectors])
            measured.values[f"{cut.primary}_of_{width}_dimensions"] = cut.value
        return measured if self.metric is None else with_primary(measured, self.metric)

    def details(
        self, items: Sequence[EmbedItem], answers: Sequence[Embedded], measured: Measured
    ) -> list[Detail]:
        """Cosines against scores."""
        if items[0].kind != "scores":
            return []
        found = tuple(answer.similarities[0] for answer in answers)
        return [ScatterPlot(tuple(float(item.label) for item in items), found)]

    def mistakes(
        self, items: Sequence[EmbedItem], answers: Sequence[Embedded]
    ) -> list[Mistake] | None:
        """Rows that the vectors contradict."""
        return mistakes_about(items, [answer.vectors for answer in answers])

    def reading_notes(self, answers: Sequence[Any]) -> list[str]:
        """How many texts were cut."""
        cut = sum(answer.truncated for answer in answers)
        if not cut:
            return ["Every text of the dev set fits into one window; nothing was cut."]
        return [
            f"{cut:,} of {counted(len(answers), 'row')} of the dev set have a text that is longer "
            f"than a window; of each was read {self.windows.kept_in_words()}."
        ]

    def shown(self, item: EmbedItem, answer: Embedded, top: int = 1) -> ShownPrediction:
        """How similar the texts are."""
        if len(answer.vectors) == 1:
            shown = ", ".join(f"{value:.3f}" for value in answer.vectors[0][:4])
            return ShownPrediction(f"[{shown}, …]", None, item.texts)
        return ShownPrediction(f"{answer.similarities[0]:.3f}", None, item.texts)


def _places(item: EmbedItem) -> range:
    return range(1 + len(item.others))


def _said(item: EmbedItem, place: int) -> tuple[float, ...]:
    """What a teacher says of a text: its vector, or its score among the documents of a query."""
    if not item.teacher or not item.others:
        return item.teacher
    # Differences from the positive are scores of which the positive's is 0.
    margins = len(item.teacher) == len(item.others) - 1
    scores = (0.0, *(-margin for margin in item.teacher)) if margins else item.teacher
    return (scores[place - 1] if place else 0.0,)


def _key(text: str) -> float:
    """A number that equal texts share, exact as a float64."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> (64 - _KEY_BITS))


def _rows_for(
    items: Sequence[EmbedItem], kind: str, *, rebuilt: bool
) -> tuple[Sequence[EmbedItem], tuple[str, ...], ClassPairs | None]:
    """Rows that a loss can learn from: of texts alone each with itself, of classes pairs."""
    if rebuilt:
        how = "Each text is written again from the vector of what is left of it (TSDAE)."
        return items, (how,), None
    if kind == "texts":
        rows = [replace(item, others=(item.anchor,)) for item in items]
        return rows, ("Each text is compared with itself, read with other dropout (SimCSE).",), None
    if kind != "groups":
        return items, (), None
    pairs = ClassPairs.of(items)
    if len(pairs.circles) == 1:
        raise InputError(
            f"{items[0].source_location}: every text has the class {next(iter(pairs.circles))!r}; "
            "there must be two classes at least; add rows of others."
        )
    rows = pairs.paired(items)
    if not rows:
        raise InputError(
            f"{items[0].source_location}: no class has two different texts; there is nothing to "
            "pair; add rows."
        )
    note = (
        f"Each text is paired with another of its class, in each epoch another one: "
        f"{counted(len(rows), 'pair')}."
    )
    alone = sum(len(texts) == 1 for texts in pairs.circles.values())
    missing = f" {counted(alone, 'class has', 'classes have')} one text and no pair."
    return rows, (note + (missing if alone else ""),), pairs


def measurable(items: Sequence[EmbedItem]) -> tuple[Sequence[EmbedItem], tuple[str, ...]]:
    """Rows to measure on, of whatever kind the dev set is.

    Raises:
        InputError: If nothing can be measured on them.
    """
    kinds = Counter(item.kind for item in items)
    if kinds.keys() == {"lists"}:
        rows: list[EmbedItem] = [replace(item, teacher=()) for item in items]
        how = "how often the first document is nearer than the others"
    elif kinds.keys() == {"vectors"} and len(items) > 1:
        rows = _as_the_teacher(items)
        how = "whether pairs of texts are as similar as the teacher finds them"
    elif kinds.keys() <= {"texts", "vectors", "classes"}:
        rows = [row for item in items for row in _halves(item)]
        how = "whether the first half of each text finds its second half"
        if len(rows) < 2:
            raise InputError(
                f"{items[0].source_location}: the dev set has texts alone, too short to be halved; "
                "name a dev file with pairs (--dev)."
            )
    else:
        check_measurable(items)
        return items, ()
    return rows, (
        f"The dev set holds {KINDS[items[0].kind]}: measured is {how}; a dev file of pairs with "
        "scores says more (--dev).",
    )


def _as_the_teacher(items: Sequence[EmbedItem]) -> list[EmbedItem]:
    """Each text with the next one, and how similar the teacher's vectors of the two are."""
    unit = unit_vectors(np.array([item.teacher for item in items]))
    cosines = (unit * np.roll(unit, -1, axis=0)).sum(axis=1).tolist()
    others = [*items[1:], items[0]]
    return [
        replace(item, others=(other.anchor,), label=cosine, teacher=())
        for item, other, cosine in zip(items, others, cosines, strict=True)
    ]


def _halves(item: EmbedItem) -> list[EmbedItem]:
    words = item.anchor.split()
    if len(words) >= 2:
        first, second = " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])
    elif len(item.anchor) >= 4:
        middle = len(item.anchor) // 2
        first, second = item.anchor[:middle], item.anchor[middle:]
    else:
        return []
    halves = replace(item, anchor=first, others=(second,), label=None, teacher=())
    return [halves] if first != second else []

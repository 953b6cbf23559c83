"""Extractive question answering: where in a context the answer begins and ends.

Paper: Devlin et al. 2019 (two pointers over the tokens); Rajpurkar et al. 2016 and 2018 (SQuAD 1.1
and 2.0).
Data: questions with a context and the answers that stand in it; or none, if it holds no answer.
Hides and asks: hides nothing; asks each window for the first and last token of the answer, and for
the first token of all where the answer does not stand in the window as a whole.
Loss: half of -log p(first) and half of -log p(last), each over the tokens of the window.
Relations: what a person would slice out, so it answers with offsets; a generator answers freely.
Where paper and code differ: the released code writes an answer's text again from its pieces and
projects it onto the words; here the offsets of the tokens give it to the character.
Example: `Answer()`, with questions that may have no answer `{kind = "answer", threshold = 0.0}`.

Shapes: N tokens, B windows, T tokens of a window.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from clozeworks.arrays import Float32Array
from clozeworks.core.heads.answer_beam import AnswerBeamModule
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.core.ops.segments import text_normalizers
from clozeworks.data.labelled.items import Item, ItemLocations
from clozeworks.errors import InputError
from clozeworks.families.family import ANSWER_HEAD, BEAM_HEAD
from clozeworks.objectives.batch import ANSWERS, BatchTensors
from clozeworks.spec import PositiveInt, spec
from clozeworks.tasks.classify import softmax
from clozeworks.tasks.metrics.answers import (
    cmrc,
    cmrc_exact,
    cmrc_f1,
    squad,
    squad_exact,
    squad_f1_or_none,
)
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import (
    GOLD,
    PREDICTED,
    Detail,
    DetailTable,
    DetailText,
    Mark,
    Mistake,
    marked,
)
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.spans.windows import (
    TokenWindow,
    Windows,
    first_tokens,
    judged_in,
    offsets_of,
    read_windows,
)
from clozeworks.tasks.task import (
    CommandOption,
    Prepared,
    PublishedHeads,
    ShownPrediction,
    Target,
    Task,
    TaskData,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

HEAD = ANSWER_HEAD
# Paper: the length of a window; questions and contexts together.
LENGTH = 384
NO_ANSWER = "no answer"
_POINTERS = """\
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
model = AutoModelForQuestionAnswering.from_pretrained("FOLDER")
inputs = tokenizer("a question?", "a context that holds the answer", return_tensors="pt")
with torch.no_grad():
    outputs = model(**inputs)
start, end = outputs.start_logits.argmax(), outputs.end_logits.argmax()
answer = tokenizer.decode(inputs["input_ids"][0, start : end + 1])"""


@dataclass(frozen=True)
class Candidate:
    """A stretch of the context that may be the answer."""

    text: str
    """Its characters; empty for "no answer"."""
    begin: int
    """Its first character in the context."""
    end: int
    """The character after its last."""
    score: float
    """Its probability among all candidates."""
    points: float
    """The sum of the two logits it was found by."""


@dataclass(frozen=True)
class Answered:
    """What a model answers."""

    text: str
    """The answer as it stands in the context; empty if there is none."""
    begin: int | None
    """Its first character in the context; None if there is none."""
    end: int | None
    """The character after its last."""
    score: float
    """Its probability among the candidates."""
    candidates: tuple[Candidate, ...]
    """The best answers, best first; "no answer" among them if it may be given."""
    lead: float | None = None
    """By how much "no answer" is ahead of the best answer, in points; None if it may not be given.
    There is no answer if it is above the threshold."""
    windows: int = 1
    """Through how many windows the context was read."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it; `top` is how many candidates are kept."""
        return {
            "answer": self.text,
            "begin": self.begin,
            "end": self.end,
            "score": self.score,
            "candidates": [dict(vars(each)) for each in self.candidates[:top]],
            **({} if self.lead is None else {"lead": self.lead}),
            "windows": self.windows,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Answered":
        """The same from what `to_dict` wrote of all candidates."""
        return cls(
            text=record["answer"],
            begin=record["begin"],
            end=record["end"],
            score=record["score"],
            candidates=tuple(Candidate(**each) for each in record["candidates"]),
            lead=record.get("lead"),
            windows=record["windows"],
        )


@spec
class Answer(Task[QuestionItem, Answered]):
    """Finds the answer to a question in a context."""

    paper: ClassVar[str] = "Devlin et al. 2019; Rajpurkar et al. 2016"
    per_token: ClassVar[bool] = True
    item_type: ClassVar[type[Item]] = QuestionItem
    answer_type: ClassVar[type[Any]] = Answered
    summary: ClassVar[str] = "find the answers to questions in a context"
    description: ClassVar[str] = (
        "Find the span of a context that answers a question. Long contexts are read through "
        "windows, never truncated. Begin and end are characters of the context; JSON does not "
        "repeat the context itself. The context may also be the name of a file that holds it."
    )
    title: ClassVar[str] = "Question answering"
    ability: ClassVar[str] = "answer questions"
    architecture: ClassVar[str] = "…ForQuestionAnswering"
    pipeline_tag: ClassVar[str] = "question-answering"
    command_options: ClassVar[Mapping[str, CommandOption]] = {
        "top": CommandOption(
            int,
            "How many answers are shown, the best first. If not given, people are shown one, and "
            "JSON holds all that were looked at.",
            "-k",
        ),
        "threshold": CommandOption(
            float,
            'Give no answer if "none" is ahead by more than this; as the model says if not given.',
        ),
    }
    usual_epochs: ClassVar[float] = 2.0
    python_usage: ClassVar[str] = (
        'output = model.answer("a question?", "a context that holds the answer")'
    )
    head_labels: ClassVar[tuple[str, ...]] = ("begin", "end")

    threshold: float | None = None
    """No answer is given if "none" is ahead by more than this; None: there always is an answer."""
    n_best: PositiveInt = 20
    """Candidates that are looked at and kept."""
    longest: PositiveInt = 30
    """The most tokens of an answer."""
    rule: Literal["squad", "cmrc"] = "squad"
    """How answers are compared with the right ones: squad, or cmrc for Chinese."""
    windows: Windows = Windows()
    """How long contexts are read: windows of 384 tokens, each a third of that after the other, if
    not given."""
    beam: bool = False
    """Whether the end is looked for after the beginning, as by XLNet's own head."""

    def __post_init__(self) -> None:
        self.windows.refuse_cutting("an answer may stand anywhere in its context")

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task, with a threshold where questions may have no answer."""
        impossible = [item for item in (*data.train.items, *data.dev.items) if item.impossible]
        if impossible and settings.get("rule") == "cmrc":
            raise InputError(
                f"{impossible[0].source_location} has no answer, and task.rule is 'cmrc', which "
                "knows no such questions; drop them, or leave task.rule out."
            )
        if impossible:
            settings = {"threshold": 0.0, **settings}
        return super().prepare(settings, data)

    @classmethod
    def from_checkpoint(cls, published: PublishedHeads) -> "Answer | None":
        """Which head it is is all a config can say."""
        if BEAM_HEAD in published.heads:
            return cls(beam=True)
        return cls() if HEAD in published.heads else None

    @property
    def head(self) -> str:
        """Two pointers, or an end that knows the beginning."""
        return BEAM_HEAD if self.beam else HEAD

    def windows_of(
        self, items: Sequence[QuestionItem], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """The question and a stretch of the context in each window."""
        windows = self.windows
        length = windows.length or (LENGTH if max_length is None else min(LENGTH, max_length))
        windows = replace(windows, length=length)
        if windows.step is None and windows.overlap is None:
            windows = replace(windows, step=max(1, length // 3))  # as published: 128 of 384
        source_locations = ItemLocations(items, "question")
        for number, item in enumerate(items):
            if not item.context.strip():
                raise InputError(
                    f"{source_locations[number]}: the context is empty; an answer stands in its "
                    "context; give one."
                )
        read = read_windows(
            tokenizer,
            [item.question for item in items],
            [item.context for item in items],
            windows=windows,
            max_length=max_length,
            moves="second",
            offsets=True,
            source_locations=source_locations,
        )
        if not self.beam:
            return read
        # Other tokens would take the places of beginnings that are tried.
        return [
            replace(window, positions=np.arange(window.moving.start, window.moving.stop))
            for window in read
        ]

    def targets(self, item: QuestionItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """First and last token of the first answer; twice 0 where it does not stand whole."""
        if not item.answers:
            if not item.impossible:
                raise InputError(
                    f"{item.source_location or 'the question'} has no answer; give one, or mark it "
                    "as impossible."
                )
            return [Target(label=np.zeros(2, np.int64))] * len(windows)
        right, offsets = item.answers[0], offsets_of(windows)
        first = int(first_tokens([(right.begin, right.end)], offsets)[0])
        last = int(np.searchsorted(offsets[:, 0], right.end)) - 1
        targets = []
        for window in windows:
            ends = np.array([first, last]) - window.first
            inside = first >= 0 and ends[0] >= 0 and ends[1] < window.count
            targets.append(Target(label=ends + window.before if inside else np.zeros(2, np.int64)))
        return targets

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """Half for the first token, half for the last."""
        layout = tensors.layout
        if self.beam:
            head = model.head(BEAM_HEAD)
            assert isinstance(head, AnswerBeamModule)
            costs, right = head.losses(hidden_states, layout, tensors.targets[self.name][ANSWERS])
            return {self.name: LossTerm(costs.sum(), len(layout), right.sum())}
        logits = self.logits(model, hidden_states, layout)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # (N, 2)
        ends = tensors.targets[self.name][ANSWERS]  # (B, 2)
        positions = layout.first(logits.device)[:, None] + ends
        right = logits.gather(0, positions)  # (B, 2)
        total = (text_normalizers(logits, layout) - right).sum() / 2
        highest = torch.segment_reduce(
            logits.detach(), "max", lengths=layout.sizes(logits.device), axis=0
        )
        correct = (right.detach() >= highest).all(dim=1).sum()
        return {self.name: LossTerm(total, len(layout), correct)}

    def decode(
        self, item: QuestionItem, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> Answered:
        """The best pair of ends over all windows."""
        offsets, owner = offsets_of(windows), judged_in(windows)
        points, firsts, lasts = [], [], []
        for number, (window, each) in enumerate(zip(windows, logits, strict=True)):
            begin, end, sums = self._pairs(each)
            tokens = window.wanted - window.before + window.first  # those of the context
            first, last = tokens[begin][:, None], tokens[end][None, :]
            inside = (first >= window.first) & (last < window.first + window.count)
            size = last - first
            fits = inside & (size >= 0) & (size < self.longest)
            judge = owner[np.clip(first, 0, max(len(owner) - 1, 0))] if len(owner) else first < 0
            rows, columns = np.nonzero(fits & (judge == number))
            points.append(sums[rows, columns])
            firsts.append(first[rows, 0])
            lasts.append(last[0, columns])
        best = self._best(item, offsets, *map(np.concatenate, (points, firsts, lasts)))
        if self.beam:  # the last column says by how much "none" is ahead
            none = min((float(each[0, -1]) for each in logits if len(each)), default=0.0)
            none += best[0].points if best else 0.0
        else:
            none = min(float(each[0, 0]) + float(each[0, 1]) for each in logits)
        return self._answered(best, none, len(windows))

    def _pairs(self, logits: Float32Array) -> tuple[Any, Any, Any]:
        """Candidates of a window: rows of first tokens, of last ones, and the points of pairs."""
        exact = logits.astype(np.float64)
        if not self.beam or not len(logits):
            begin, end = _highest(logits[:, 0], self.n_best), _highest(logits[:, 1], self.n_best)
            return begin, end, exact[begin, 0][:, None] + exact[end, 1]
        begin = _highest(logits[:, 0], logits.shape[1] - 2)
        first, last = _log_softmax(exact[:, 0]), _log_softmax(exact[:, 1:-1])
        return begin, np.arange(len(logits)), first[begin][:, None] + last.T[: len(begin)]

    def _best(
        self, item: QuestionItem, offsets: Any, points: Any, firsts: Any, lasts: Any
    ) -> list[Candidate]:
        """The best stretches, each text once."""
        by_text: dict[str, Candidate] = {}
        for number in np.argsort(-points, kind="stable").tolist():
            begin, end = int(offsets[firsts[number], 0]), int(offsets[lasts[number], 1])
            # Some tokenizers count the space before a word to the word.
            begin += len(item.context[begin:end]) - len(item.context[begin:end].lstrip())
            text = item.context[begin:end]
            if text and text not in by_text:
                by_text[text] = Candidate(text, begin, end, 0.0, float(points[number]))
            if len(by_text) == self.n_best:
                break
        return list(by_text.values())

    def _answered(self, best: list[Candidate], none: float, windows: int) -> Answered:
        lead = None
        if self.threshold is not None or not best:
            lead = none - best[0].points if best else None
            best = sorted([*best, Candidate("", 0, 0, 0.0, none)], key=lambda each: -each.points)
        probabilities = softmax(np.array([each.points for each in best]))
        rated = tuple(
            replace(each, score=float(probability))
            for each, probability in zip(best, probabilities, strict=True)
        )
        texts = [each for each in rated if each.text]
        empty = not texts or (
            self.threshold is not None and lead is not None and lead > self.threshold
        )
        if empty:
            score = next(each.score for each in rated if not each.text)
            return Answered("", None, None, score, rated, lead, windows)
        first = texts[0]
        return Answered(first.text, first.begin, first.end, first.score, rated, lead, windows)

    def compared(self, item: Any, answer: Answered) -> tuple[Any, Any]:
        """The texts of all right answers, and the one that was given."""
        return item.gold_texts, answer.text

    def measure(
        self, items: Sequence[QuestionItem], answers: Sequence[Answered], *, intervals: bool = False
    ) -> Measured:
        """Exact match and F1 by the official rules."""
        gold = [item.gold_texts for item in items]
        if self.rule == "cmrc":
            return cmrc(gold, [answer.text for answer in answers], intervals=intervals)
        if self.threshold is None:
            return squad(gold, [answer.text for answer in answers], intervals=intervals)
        # The best threshold can be found only from what would be answered without one.
        texts = [[each.text for each in answer.candidates if each.text] for answer in answers]
        doubts = [math.inf if answer.lead is None else answer.lead for answer in answers]
        return squad(
            gold,
            [candidates[0] if candidates else "" for candidates in texts],
            doubts=doubts,
            threshold=self.threshold,
            intervals=intervals,
        )

    def baseline(
        self, train: Sequence[QuestionItem], dev: Sequence[QuestionItem]
    ) -> tuple[str, list[Answered]]:
        """No answer at all; the lead is larger than any threshold."""
        silent = Answered("", None, None, 1.0, (), math.inf)
        return "never giving an answer", [silent] * len(dev)

    def details(
        self, items: Sequence[QuestionItem], answers: Sequence[Answered], measured: Measured
    ) -> list[Detail]:
        """Questions with and without an answer apart, and what another threshold would do."""
        values = measured.values
        groups = [
            ("answerable", sum(bool(item.answers) for item in items), "answerable_"),
            ("impossible", sum(not item.answers for item in items), "impossible_"),
        ]
        rows = tuple(
            (name, f"{count:,}", f"{values[f'{key}exact_match']:.3f}", f"{values[f'{key}f1']:.3f}")
            for name, count, key in groups
            if f"{key}f1" in values
        )
        if not rows:
            return []
        silent = sum(not answer.text for answer in answers)
        text = (
            f"The model gives no answer where “no answer” leads by more than {self.threshold:g} "
            f"points; this was so for {silent:,} of {counted(len(answers), 'question')}."
        )
        if values.get("best_f1", 0.0) > measured.value:
            text += (
                f" On this dev set a threshold of {values['best_f1_threshold']:.4g} would be best: "
                f"F1 {values['best_f1']:.3f}; that value is optimistic, because the threshold was "
                "chosen on the same items."
            )
        return [DetailTable(("questions", "count", "exact match", "F1"), rows), DetailText(text)]

    def mistakes(self, items: Sequence[QuestionItem], answers: Sequence[Answered]) -> list[Mistake]:
        """Answers that are not right, marked in their context."""
        chinese = self.rule == "cmrc"
        exact, f1 = (cmrc_exact, cmrc_f1) if chinese else (squad_exact, squad_f1_or_none)
        mistakes = []
        for item, answer in zip(items, answers, strict=True):
            texts = item.gold_texts or ("",)
            if max(exact(text, answer.text) for text in texts) == 1:
                continue
            if not item.answers:
                kind = "answered where nothing is right"
            elif not answer.text:
                kind = "no answer where there is one"
            else:
                shared = max(f1(text, answer.text) for text in texts)
                kind = "too much or too little" if shared else "something else"
            marks = [Mark(each.begin, each.end, GOLD) for each in item.answers]
            if answer.begin is not None and answer.end is not None:
                marks.append(Mark(answer.begin, answer.end, PREDICTED))
            gold = " | ".join(dict.fromkeys(item.gold_texts)) or NO_ANSWER
            shown = (marked(item.question), marked(item.context, marks))
            predicted = answer.text or NO_ANSWER
            mistakes.append(Mistake.of(item, kind, gold, predicted, answer.score, texts=shown))
        return mistakes

    def shown(self, item: QuestionItem, answer: Answered, top: int = 1) -> ShownPrediction:
        """The answer, where it stands, and further candidates."""
        context = None
        if answer.begin is not None and answer.end is not None:
            context = marked(item.context, [Mark(answer.begin, answer.end, PREDICTED)])
        scores = tuple(
            (each.text or NO_ANSWER, each.score)
            for each in (answer.candidates[:top] if top > 1 else ())
        )
        return ShownPrediction(
            answer.text or NO_ANSWER, answer.score, marked=context, scores=scores
        )

    def configured(self, **options: Any) -> "tuple[Answer, None]":
        """With another threshold, or with as many candidates as are to be shown."""
        task = replace(self, n_best=max(self.n_best, options.get("top") or 1))
        if options.get("threshold") is not None:
            task = replace(task, threshold=options["threshold"])
        return task, None

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """Two pointers; transformers has no pipeline for it any more."""
        return _POINTERS

    def usage_notes(self) -> list[str]:
        """What two pointers alone do not do."""
        return [
            "Clozeworks also reads long contexts through windows, knows when there is no answer, "
            "and never lets an answer end before it begins."
        ]

    def tuned(self, measured: Measured) -> "Answer":
        """With the threshold that gives the best F1 on the same items, where there is one."""
        best = measured.values.get("best_f1_threshold")
        if self.threshold is None or best is None or not math.isfinite(best):
            return self
        return replace(self, threshold=best)


def _highest(logits: Float32Array, count: int) -> Any:
    """The positions of the highest logits, highest first; of equal ones the earlier."""
    return np.argsort(-logits, kind="stable")[:count]


def _log_softmax(logits: Any) -> Any:
    """Logarithms of probabilities over the rows."""
    shifted = logits - logits.max(axis=0)
    return shifted - np.log(np.exp(shifted).sum(axis=0))

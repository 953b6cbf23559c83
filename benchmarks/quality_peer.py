"""The side of transformers in `quality.py`: its heads, its Trainer, dynamic padding.

Answers are found as BERT's released code does it: windows of 384 tokens, one 128 after the other,
the best valid pair of begin and end over all windows, and no answer where the first token scores
higher by more than a threshold, the best on the dev set as on our side.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clozeworks.tasks.metrics.answers import squad
from clozeworks.tasks.metrics.classification import one_label
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.numbers import numbers
from clozeworks.tasks.metrics.tags import token_accuracy

WINDOW, STEP, LONGEST_ANSWER, CANDIDATES = 384, 128, 30, 20
IGNORED = -100


@dataclass(frozen=True)
class Settings:
    """What both sides are given."""

    model: Path
    seed: int
    epochs: int
    items: int
    rate: float
    warmup: float
    decay: float


def texts(train: Sequence[Any], dev: Sequence[Any], settings: Settings) -> Measured:
    """One text or two, a label or a number."""
    from transformers import AutoModelForSequenceClassification

    tokenizer = _tokenizer(settings)
    number = isinstance(train[0].label, float)
    labels = [] if number else sorted({item.label for item in (*train, *dev)})

    def encoded(items: Sequence[Any]) -> list[dict[str, Any]]:
        first = [item.text if hasattr(item, "text") else item.first for item in items]
        second = [item.second for item in items] if hasattr(items[0], "second") else None
        found = tokenizer(first, second, truncation=True, max_length=512)
        return [
            {
                **{key: found[key][place] for key in found},
                "labels": item.label if number else labels.index(item.label),
            }
            for place, item in enumerate(items)
        ]

    torch.manual_seed(settings.seed)
    model = AutoModelForSequenceClassification.from_pretrained(
        settings.model, num_labels=1 if number else len(labels)
    )
    judged = encoded(dev)
    scores = _trained(model, tokenizer, encoded(train), judged, settings)
    if number:
        gold = [row["labels"] for row in judged]
        return numbers(gold, scores[:, 0].astype(np.float64), intervals=True)
    gold = [row["labels"] for row in judged]
    return one_label(gold, scores.argmax(-1), labels, intervals=True)


def words(train: Sequence[Any], dev: Sequence[Any], settings: Settings) -> Measured:
    """A tag for each word, that of its first piece; the likeliest, whatever stands before it."""
    from seqeval.metrics import f1_score
    from transformers import AutoModelForTokenClassification, DataCollatorForTokenClassification

    tokenizer = _tokenizer(settings)
    labels = sorted({tag for item in (*train, *dev) for tag in item.tags})

    def encoded(items: Sequence[Any]) -> list[dict[str, Any]]:
        rows = []
        for item in items:
            found = tokenizer(
                list(item.words), is_split_into_words=True, truncation=True, max_length=512
            )
            places = found.word_ids()
            starts = [
                place is not None and place != before
                for before, place in zip([None, *places], places, strict=False)
            ]
            due = [
                labels.index(item.tags[place]) if starts_one else IGNORED
                for place, starts_one in zip(places, starts, strict=True)
            ]
            rows.append({**found, "labels": due})
        return rows

    torch.manual_seed(settings.seed)
    model = AutoModelForTokenClassification.from_pretrained(settings.model, num_labels=len(labels))
    judged = encoded(dev)
    collator = DataCollatorForTokenClassification(tokenizer)
    scores = _trained(model, tokenizer, encoded(train), judged, settings, collator)
    given = []
    for row, score, item in zip(judged, scores, dev, strict=True):
        due = np.array(row["labels"])
        said = [labels[best] for best in score[: len(due)].argmax(-1)[due != IGNORED]]
        given.append(said + ["O"] * (len(item.tags) - len(said)))
    gold = [list(item.tags) for item in dev]
    measured = token_accuracy(gold, given, intervals=True)
    if any(label.startswith(("B-", "S-")) for label in labels):
        # seqeval calls the inside of BMES I.
        plain = [
            [[f"I{tag[1:]}" if tag[:2] == "M-" else tag for tag in tags] for tags in part]
            for part in (gold, given)
        ]
        measured.values["f1"] = float(f1_score(*plain))
    return measured


def questions(train: Sequence[Any], dev: Sequence[Any], settings: Settings) -> Measured:
    """The stretch of the context that answers a question, or none."""
    from transformers import AutoModelForQuestionAnswering

    tokenizer = _tokenizer(settings)

    def encoded(items: Sequence[Any]) -> tuple[list[dict[str, Any]], list[tuple[int, Any]]]:
        rows, places = [], []
        for number, item in enumerate(items):
            # Its stride is the overlap of two windows: what is left of the room behind a step.
            room = WINDOW - 3 - len(tokenizer(item.question, add_special_tokens=False)["input_ids"])
            found = tokenizer(
                item.question,
                item.context,
                truncation="only_second",
                max_length=WINDOW,
                stride=room - STEP,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
            )
            for window in range(len(found["input_ids"])):
                offsets = [
                    span if kind == 1 else None
                    for span, kind in zip(
                        found["offset_mapping"][window], found.sequence_ids(window), strict=True
                    )
                ]
                begin, end = _span(item, offsets)
                row = {
                    key: found[key][window]
                    for key in ("input_ids", "token_type_ids", "attention_mask")
                }
                rows.append({**row, "start_positions": begin, "end_positions": end})
                places.append((number, offsets))
        return rows, places

    torch.manual_seed(settings.seed)
    model = AutoModelForQuestionAnswering.from_pretrained(settings.model)
    judged, places = encoded(dev)
    scores = _trained(model, tokenizer, encoded(train)[0], judged, settings)
    said, doubts = _answers(dev, places, scores)
    gold = [[answer.text for answer in item.answers] for item in dev]
    if all(gold):
        return squad(gold, said, intervals=True)
    best = squad(gold, said, doubts=doubts).values["best_f1_threshold"]
    return squad(gold, said, doubts=doubts, threshold=best, intervals=True)


def _span(item: Any, offsets: Sequence[Any]) -> tuple[int, int]:
    """The tokens of the first answer if they stand in the window, otherwise the first token."""
    if not item.answers:
        return 0, 0
    answer = item.answers[0]
    inside = [place for place, span in enumerate(offsets) if span is not None]
    if offsets[inside[0]][0] > answer.begin or offsets[inside[-1]][1] < answer.end:
        return 0, 0
    begin = max(place for place in inside if offsets[place][0] <= answer.begin)
    end = min(place for place in inside if offsets[place][1] >= answer.end)
    return begin, end


def _answers(
    dev: Sequence[Any], places: Sequence[tuple[int, Any]], scores: Any
) -> tuple[list[str], list[float]]:
    """The best answer of each question that is not empty, and by how much nothing is better."""
    begins, ends = scores
    best: list[tuple[float, str]] = [(-np.inf, "")] * len(dev)
    nothing = [np.inf] * len(dev)
    for row, (number, offsets) in enumerate(places):
        begin, end = begins[row][: len(offsets)], ends[row][: len(offsets)]
        nothing[number] = min(nothing[number], begin[0] + end[0])
        for first in np.argsort(-begin)[:CANDIDATES]:
            for last in np.argsort(-end)[:CANDIDATES]:
                if offsets[first] is None or offsets[last] is None:
                    continue
                if not first <= last < first + LONGEST_ANSWER:
                    continue
                score = begin[first] + end[last]
                if score > best[number][0]:
                    text = dev[number].context[offsets[first][0] : offsets[last][1]]
                    best[number] = (score, text)
    doubts = [float(none - score) for none, (score, _) in zip(nothing, best, strict=True)]
    return [text for _, text in best], doubts


def _trained(
    model: Any,
    tokenizer: Any,
    train: list[dict[str, Any]],
    dev: list[dict[str, Any]],
    settings: Settings,
    collator: Any = None,
) -> Any:
    """Trains, and gives the scores of the dev rows."""
    from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

    steps = -(-len(train) // settings.items) * settings.epochs
    with tempfile.TemporaryDirectory() as place:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=place,
                seed=settings.seed,
                per_device_train_batch_size=settings.items,
                per_device_eval_batch_size=settings.items,
                num_train_epochs=settings.epochs,
                learning_rate=settings.rate,
                warmup_steps=round(settings.warmup * steps),
                weight_decay=settings.decay,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=train,
            data_collator=collator or DataCollatorWithPadding(tokenizer),
        )
        trainer.train()
        return trainer.predict(dev).predictions


def _tokenizer(settings: Settings) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(settings.model)


MEASURE: dict[str, Callable[[Sequence[Any], Sequence[Any], Settings], Measured]] = {
    "classify": texts,
    "compare": texts,
    "tag": words,
    "answer": questions,
}

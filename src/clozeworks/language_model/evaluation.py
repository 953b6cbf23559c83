"""How good a model is on labelled data: what is measured, and how data is read.

A published folder does not say whether its classifier is for texts or for pairs; the columns of the
data may. Labels that are numbers are matched with the model's labels.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.data.files.tables import Table, TableReader, read_table
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import find_columns, named_columns
from clozeworks.data.labelled.in_memory import (
    DataSource,
    InMemory,
    data_sources,
    source_name,
    split_data,
)
from clozeworks.data.labelled.reading import Labelled, Reading, read_items
from clozeworks.data.labelled.vocabulary_fit import vocabulary_fit
from clozeworks.data.retrieval.folder import is_collection, read_collection
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.cloze import TOP, GapItem, measure_gaps, right_words
from clozeworks.language_model.evaluated import EvaluatedModel, EvaluationSettings, Tell
from clozeworks.language_model.fitting_labels import fitted
from clozeworks.language_model.retrieval import QueryItem, measure_retrieval
from clozeworks.language_model.vector_quality import embedded_items
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.embed.items import KINDS, EmbedItem
from clozeworks.tasks.embed.measures import check_measurable, measure_vectors
from clozeworks.tasks.embed.task import Embed
from clozeworks.tasks.metrics.custom import with_metric
from clozeworks.tasks.metrics.labels import KnownLabels
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.records import record_of
from clozeworks.tasks.task import command_name, named_class, task_classes

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel


def evaluate(
    model: "LanguageModel",
    data: Any,
    settings: EvaluationSettings,
    *,
    tell: Tell = lambda sentence: None,
    **options: Any,
) -> EvaluatedModel:
    """Measures how good a model is on labelled data.

    Args:
        model: The model.
        data: Labelled data of any form that `data_sources` takes.
        settings: What is measured, and how the data is read.
        tell: Told what was found out about the data.
        options: As for `predict`.

    Raises:
        InputError: If the data cannot be used.
        SettingError: If a setting does not go with the task.
        UnsupportedError: If the model has no head for the task.
    """
    if (splits := split_data(data)) is not None:
        names = ", ".join(map(str, splits))
        raise InputError(
            f"data has the splits {names}; one of them is measured; name it, such as "
            f"data[{list(splits)[-1]!r}]."
        )
    if isinstance(data, str | Path) and is_collection(Path(data)):
        return _evaluate_collection(model, Path(data), settings, tell, options)
    if settings.rerank is not None:
        rule = "documents that were found are scored again, and there are none to find"
        advice = "give a folder with corpus.jsonl, queries.jsonl and qrels, or leave it out"
        raise SettingError("--rerank", settings.rerank.name, rule, advice)
    sources = data_sources(data, "data")
    kind = _kind(model, sources, settings, tell)
    task = None if kind is None else _with_threshold(model, kind, settings)
    item = TextItem if task is None else task.files_hold()
    bad = BadRows(skip=settings.skip_bad_rows)
    reading = replace(settings.reading, columns=named_columns(settings.columns, item))
    writes = task is not None and task.writes
    if reading.labels is reading.label_separator is None and not writes:
        # Whole numbers in a file may be names, too: as the model's labels are.
        labels = "one" if task is None else task.label_kind
        reading = replace(reading, labels=None if labels == "several" else labels)
    labelled = _read(sources, task, reading, bad, tell)
    fit = vocabulary_fit(labelled.items, model.tokenizer)
    if fit is not None and fit.unknown:
        tell(fit.sentence())
    begin = time.monotonic()
    if task is None:
        result = _evaluate_gaps(model, labelled, settings, options)
    elif isinstance(task, Embed):
        result = _evaluate_vectors(model, task, labelled, settings, tell, options)
    else:
        result = _evaluate_task(model, task, labelled, settings, tell, options)
    return replace(result, seconds=time.monotonic() - begin)


def _evaluate_collection(
    model: "LanguageModel",
    path: Path,
    settings: EvaluationSettings,
    tell: Tell,
    options: dict[str, Any],
) -> EvaluatedModel:
    """Measures how well documents are found."""
    for name, value in (("--threshold", settings.threshold), ("--columns", settings.columns)):
        if value is not None:
            rule = f"{path} is a folder of documents, queries and judgements"
            raise SettingError(name, value, rule, "leave it out")
    if settings.metric is not None and not isinstance(settings.metric, str):
        rule = "documents that were found are measured by a metric with a name"
        raise SettingError("metric", settings.metric, rule, "such as recall@20")
    bad = BadRows(skip=settings.skip_bad_rows)
    collection = read_collection(path, bad)
    begin = time.monotonic()
    result = measure_retrieval(
        model,
        collection,
        bad,
        metric=settings.metric,
        rerank=settings.rerank,
        intervals=settings.intervals,
        tell=tell,
        **options,
    )
    return EvaluatedModel(
        result.measured,
        KnownLabels(),
        result.records,
        list(result.rankings.values()),
        result.labelled,
        QueryItem.command,
        seconds=time.monotonic() - begin,
    )


def _kind(
    model: "LanguageModel", sources: Sequence[DataSource], settings: EvaluationSettings, tell: Tell
) -> type[AnyTask] | None:
    """The task: as the settings, the model folder or the data says; None for gaps."""
    kinds = {command_name(kind): each for kind, each in task_classes().items()}
    task = settings.task
    if isinstance(task, str) and command_name(task) not in {*kinds, GapItem.command}:
        raise UnknownName("task", task, (*kinds, GapItem.command))
    if task is not None and task != GapItem.command:
        return named_class(task)
    trained = model.task
    if task is None and trained is None and (reason := _embeds(model, sources[0], settings)):
        tell(f"{reason}, so its vectors are measured, with --task embed.")
        return Embed
    if task is not None or trained is None:
        if "vocabulary" not in model.blueprint.heads:
            model.fill([]) if task else model.predict([])  # complains
        return None
    if "task" in model.checkpoint.notes:
        return type(trained)
    # A published folder does not say for how many texts its head is; the data may.
    able = [kind for kind in kinds.values() if trained.suited_to(kind) is not None]
    if len(able) < 2:
        return type(trained)
    guess, reason = _guessed(able, type(trained), sources[0], settings)
    tell(
        f"The model folder does not say whether it is for texts or for pairs; {reason}, so it is "
        f"measured with --task {guess.item_type.command}."
    )
    return guess


def _guessed(
    able: Sequence[type[AnyTask]],
    usual: type[AnyTask],
    source: DataSource,
    settings: EvaluationSettings,
) -> tuple[type[AnyTask], str]:
    """The task whose columns the data has, by their usual names; else the usual one; and why."""
    others = [kind for kind in able if kind.item_type is not usual.item_type]
    name = source_name(source)
    columns = settings.columns
    if columns is not None:
        parts = columns.split(",") if isinstance(columns, str) else columns
        roles = {part.partition("=")[0].strip() for part in parts}
        fits = [kind for kind in others if roles & {*kind.item_type.text_names}]
        return (fits[0] if fits else usual), f"--columns is {columns}"
    for kind in others:
        if isinstance(source, InMemory) and source.items:
            if isinstance(source.items[0], kind.item_type):
                return kind, f"{name} holds items of the type {kind.item_type.__name__}"
            continue
        try:
            head = _head(source, settings.reading)
            found = find_columns(head, kind.item_type, {}, settings.reading.header)[1]
        except InputError:  # reading the file as texts says what is wrong with it
            return usual, f"{name} has no columns of pairs"
        texts = kind.item_type.text_names
        known = [column for column in found if column.role in texts and column.how == "known"]
        if len(known) == len(texts):
            return kind, f"{name} has the columns {' and '.join(each.name for each in known)}"
    return usual, f"{name} has no columns with the usual names of pairs"


def _embeds(model: "LanguageModel", source: DataSource, settings: EvaluationSettings) -> str:
    """Why a model without a task is measured by its vectors; "" if it is not."""
    if model.pooling.stated:
        return "The model folder is that of a sentence model"
    if isinstance(source, InMemory) and source.items:
        return "The items are rows of texts" if isinstance(source.items[0], EmbedItem) else ""
    try:
        head = _head(source, settings.reading)
        found = find_columns(head, EmbedItem, {}, settings.reading.header)[1]
    except InputError:  # reading the file says what is wrong with it
        return ""
    known = [column.name for column in found if column.how == "known"]
    roles = {column.role for column in found if column.how == "known"}
    if not {"anchor", "positive"} <= roles:
        return ""
    return f"{source_name(source)} has the columns {', '.join(known)}"


def _head(source: DataSource, reading: Reading) -> Table:
    """The first rows of the data, or all of them."""
    if isinstance(source, InMemory):
        assert source.table is not None
        return source.table
    bad, path = BadRows(skip=True), Path(source)
    if reading.suffix_of(path) == ".json":
        return read_table(path, reading, bad.add)
    return TableReader(path, reading, bad.add).head


def _with_threshold(
    model: "LanguageModel", kind: type[AnyTask], settings: EvaluationSettings
) -> AnyTask:
    """The model's task, with another threshold if one is given."""
    threshold = settings.threshold
    if issubclass(kind, Embed):
        return model.task_for(kind)
    if threshold is not None and "threshold" not in kind.command_options:
        rule = f"{kind.item_type.command} has no threshold, only questions have one"
        raise SettingError("--threshold", threshold, rule, "leave it out")
    task = settings.task if isinstance(settings.task, kind) else model.task_for(kind)
    return task if threshold is None else task.configured(threshold=threshold)[0]


def _read(
    sources: Sequence[DataSource], task: AnyTask | None, reading: Reading, bad: BadRows, tell: Tell
) -> Labelled:
    """Reads labelled data and tells which columns were taken for what."""
    if task is None:
        labelled = read_items(sources, TextItem, reading, bad=bad)
    else:
        labelled = task.read_to_measure(sources, reading, bad)
    if labelled.description:
        tell(labelled.description)
    item, name = labelled.item, ", ".join(labelled.files)
    if not labelled.is_labelled:
        if (why := item.missing_labels(labelled.items)) is not None:
            raise InputError(f"{name} has no {item.gold_word}, and judging a model needs {why}")
        raise InputError(
            f"{name} has no {item.gold_word}, and there is nothing to measure without them; name "
            f"their column with --columns {item.label_role}=NAME."
        )
    bare = next((each for each in labelled.items if each.gold is None), None)
    if bare is not None and item.labels_needed:
        raise InputError(
            f"{bare.source_location} has no answer; give one, or mark it as impossible."
        )
    return labelled


def _evaluate_gaps(
    model: "LanguageModel",
    labelled: Labelled,
    settings: EvaluationSettings,
    options: dict[str, Any],
) -> EvaluatedModel:
    items = labelled.items
    right_words(model.tokenizer, items)  # complains before the long work
    filled = model.fill([item.text for item in items], top=TOP, **options)
    measured = measure_gaps(model.tokenizer, items, filled, intervals=settings.intervals)
    pairs = [
        (item.gold, tuple(gap[0].word for gap in each.gaps))
        for item, each in zip(items, filled, strict=True)
    ]
    records = [
        {**asdict(answer), "gold": item.gold_json(), "source_location": item.source_location}
        for item, answer in zip(items, filled, strict=True)
    ]
    measured = with_metric(measured, settings.metric, pairs)
    return EvaluatedModel(measured, KnownLabels(), records, filled, labelled, GapItem.command)


def _evaluate_task(
    model: "LanguageModel",
    task: AnyTask,
    labelled: Labelled,
    settings: EvaluationSettings,
    tell: Tell,
    options: dict[str, Any],
) -> EvaluatedModel:
    items: Sequence[Any] = labelled.items
    labels = task.settings().get("id2label", {}).values()
    if labels and task.label_kind != "numbers":
        items, sentence = fitted(items, list(labels))
        if sentence:
            tell(sentence)
    labelled = replace(labelled, items=items)
    if isinstance(settings.metric, str) and (guessed := task.guessed(items, items)) is not None:
        with_metric(guessed[1], settings.metric, ())  # complains before the long work
    answers = model.predict(items, task, **options)
    measured = task.measure(items, answers, intervals=settings.intervals)
    pairs = [task.compared(item, answer) for item, answer in zip(items, answers, strict=True)]
    records = [
        record_of(item, answer, gold=True) for item, answer in zip(items, answers, strict=True)
    ]
    return EvaluatedModel(
        with_metric(measured, settings.metric, pairs),
        task.known_labels(items, answers),
        records,
        answers,
        labelled,
        task.item_type.command,
        task,
        _best_threshold(task, items, answers, measured),
    )


def _evaluate_vectors(
    model: "LanguageModel",
    task: Embed,
    labelled: Labelled,
    settings: EvaluationSettings,
    tell: Tell,
    options: dict[str, Any],
) -> EvaluatedModel:
    """Measures vectors as the folder says they are made."""
    items: Sequence[Any] = labelled.items
    if settings.threshold is not None and labelled.kind != "judged":
        rule = f"the rows hold {KINDS[labelled.kind]}, and only pairs with 0 or 1 have a threshold"
        raise SettingError("--threshold", settings.threshold, rule, "leave it out")
    check_measurable(items)
    answers = embedded_items(model, items, labelled.columns, tell=tell, **options)
    measured = measure_vectors(
        items,
        [answer.vectors for answer in answers],
        threshold=settings.threshold,
        intervals=settings.intervals,
    )
    both = list(zip(items, answers, strict=True))
    return EvaluatedModel(
        with_metric(measured, settings.metric, [task.compared(*each) for each in both]),
        KnownLabels(),
        [record_of(*each, gold=True) for each in both],
        answers,
        labelled,
        task.item_type.command,
        task,
    )


def _best_threshold(
    task: Any, items: Sequence[Any], answers: Sequence[Any], measured: Measured
) -> str | None:
    """The best threshold, in at least four digits and as few as reach the same F1."""
    exact = measured.values.get("best_f1_threshold")
    if exact is None or not math.isfinite(exact):
        return None
    for digits in range(4, 17):
        # One of the answers has exactly this doubt, and rounding may leave it on the other side.
        for rounding in (ROUND_CEILING, ROUND_FLOOR):
            shown = f"{Context(prec=digits, rounding=rounding).create_decimal_from_float(exact):f}"
            rounded = replace(task, threshold=float(shown)).measure(items, answers)
            if rounded.values["f1"] >= measured.values["best_f1"] - 1e-9:
                return shown
    return repr(exact)

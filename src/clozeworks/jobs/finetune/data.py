"""From labelled files to a task: its labels, its items, and what a person should know of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from clozeworks import config
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import QuestionItem, WordsItem
from clozeworks.data.labelled.labels import are_chats, check_labels
from clozeworks.data.labelled.mixing import Mixed, Mixture
from clozeworks.data.labelled.reading import Labelled, read_labelled
from clozeworks.data.labelled.report import Report, report_on
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError, UnknownName
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.jobs.finetune.writing_task import settled_task, usable, writing_task
from clozeworks.language_model import LanguageModel
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.convert import convert
from clozeworks.tasks.tagging.schemes import BIO, IOB1, Scheme, find_scheme, scheme_of_sequences
from clozeworks.tasks.tagging.tags import NOT_TAGS, OUTSIDE, PLAIN_SPELLING, spelling_of
from clozeworks.tasks.tagging.tags import ParsedTag as Written
from clozeworks.tasks.task import Task
from clozeworks.tasks.text_to_text.data import dev_names, read_texts, task_names
from clozeworks.tasks.text_to_text.task import TextToText
from clozeworks.text.characters import is_chinese
from clozeworks.wording import counted

# The seed of the dev split: the same for every seed of a run, so that all are judged alike.
_SPLIT_SEED = 0
_PROBLEMS = {"one": "one", "several": "several", "numbers": "number"}


@dataclass(frozen=True)
class LabelledTask:
    """What is learned, from what, judged by what.

    Attributes:
        task: The task, its labels known.
        train: Items to learn from.
        dev: Items to be judged by.
        said: Sentences about what was found and done.
        report: What there is to know about the data.
        files: The same items as they were read, to learn from and to be judged by.
        mixture: How several tasks are mixed; None if they are not.
    """

    task: Task[Any, Any]
    train: Sequence[Any]
    dev: Sequence[Any]
    said: tuple[str, ...]
    report: Report
    files: tuple[Labelled, Labelled]
    mixture: Mixture | None = None

    def mixed(self, seed: int) -> Mixed | None:
        """Which item each example of an epoch is; None if each item is one."""
        if self.mixture is None:
            return None
        return Mixed([item.task for item in self.train], self.mixture, seed)

    @property
    def chats(self) -> bool:
        """Whether all that is learned from are chats."""
        return are_chats(self.train)

    @property
    def shown(self) -> int:
        """How many examples an epoch has."""
        mixed = self.mixed(0)
        return len(self.train) if mixed is None else mixed.size


def labelled_task(recipe: FinetuneRecipe, start: LanguageModel) -> LabelledTask:
    """Reads the files of a recipe and settles what the task is.

    Raises:
        InputError: A file or row cannot be used, or there is nothing to learn.
    """
    data, kind = recipe.data, recipe.task["kind"]
    bad = BadRows(skip=data.skip_bad_rows)
    writing = writing_task(recipe.task, start) if kind == "text_to_text" else None
    train, dev = _read(recipe, writing, bad)
    said = [train.found]
    if bad.rows:
        dropped = counted(len(bad.rows), "bad row was", "bad rows were")
        said.append(f"{dropped} dropped; the first: {bad.rows[0]}.")
    if bad.repaired:
        said.append(f"{len(bad.repaired):,} answers stood elsewhere and were moved there.")
    scheme = None
    if kind == "tag":
        train, dev, scheme, more = _one_scheme(train, dev, recipe.task.get("scheme"))
        said += more
    learnable = check_labels(train, dev)
    said += learnable.warnings
    items, judged = list(train.items), list(dev.items) if dev is not None else []
    if dev is None:
        items, judged = split(items, data.dev_fraction, _SPLIT_SEED)
        said.append(
            f"There is no dev file: {len(judged):,} of {counted(len(train.items), 'item')} "
            f"{'is' if len(judged) == 1 else 'are'} taken to judge by, and not trained on."
        )
    if not judged:
        raise InputError(
            "the dev set is empty; a model needs items to be judged by; name another file, or "
            "raise data.dev_fraction."
        )
    task: Task[Any, Any]
    if writing is not None:
        if data.skip_bad_rows:
            items, left_out = usable(writing, items, start)
            judged, also = usable(writing, judged, start)
            said += [*left_out, *also]
        task, more = settled_task(writing, items, judged, start)
        said += [*more, *_mixing(items, data.mixture)]
    else:
        task = _task(recipe, train, learnable.labels, [*items, *judged], scheme)
    if isinstance(task, Tag) and task.characters:
        said.append("Words are single characters: raw texts will be tagged by character, too.")
    files = (replace(train, items=items), replace(train if dev is None else dev, items=judged))
    report = report_on(*files, tokenizer=start.tokenizer, window=task.windows.length)
    return LabelledTask(task, items, judged, tuple(said), report, files, data.mixture)


def _read(
    recipe: FinetuneRecipe, writing: TextToText | None, bad: BadRows
) -> tuple[Labelled, Labelled | None]:
    """The training files, and the dev files if there are any, read alike."""
    data, kind = recipe.data, recipe.task["kind"]
    if writing is None:
        train = read_labelled(data.train, kind, data.reading(), bad=bad)
        return train, read_labelled(data.dev, kind, train.reading, bad=bad) if data.dev else None
    by_file = data.mixture is not None or bool(writing.formats)
    names = task_names(data.train) if by_file else None
    for name in writing.formats:
        if name not in (names or ()):
            raise UnknownName("task.formats", name, names or ())
    train = read_texts(data.train, writing, data.reading(), bad, names=names)
    if not data.dev:
        return train, None
    judged = None if names is None else dev_names(names, data.dev)
    return train, read_texts(data.dev, writing, data.reading(), bad, names=judged)


def _mixing(items: Sequence[Any], mixture: Mixture | None) -> list[str]:
    """How often each task is shown, in a sentence."""
    if mixture is None:
        return []
    mixed = Mixed([item.task for item in items], mixture, 0)
    if len(mixed.names) < 2:
        raise InputError(
            f"data.mixture is set, and all items are of the task {mixed.names[0]!r}; there must be "
            "two tasks to mix; name another file, or leave it out."
        )
    shares = [
        f"{name} {count:,}" for name, count in zip(mixed.names, mixed.counts.tolist(), strict=True)
    ]
    return [f"An epoch shows {counted(mixed.size, 'example')}: {', '.join(shares)}."]


def _task(
    recipe: FinetuneRecipe,
    train: Labelled,
    labels: Sequence[str],
    items: Sequence[Any],
    scheme: Scheme | None,
) -> Task[Any, Any]:
    """The task of the recipe with what the data says."""
    found: dict[str, Any] = dict(recipe.task)
    if train.kind == "answers":
        impossible = [item for item in items if isinstance(item, QuestionItem) and item.impossible]
        if impossible and found.get("rule") == "cmrc":
            raise InputError(
                f"{impossible[0].place} has no answer, and task.rule is 'cmrc', which knows no "
                "such questions; drop them, or leave task.rule out."
            )
        if impossible:
            found.setdefault("threshold", 0.0)
    elif train.kind == "tags":
        assert scheme is not None
        found = {"scheme": scheme.name, **found, "labels": _all_tags(labels, scheme)}
        found.setdefault("characters", _of_characters(items))
    elif train.kind == "numbers":
        names = [column.name for column in train.columns if column.role == "label"]
        found |= {"labels": [names[0] if names else "number"], "problem": "number"}
    else:
        found |= {"labels": list(labels), "problem": _PROBLEMS[train.kind]}
    task: Task[Any, Any] = config.read(Task, found, "task")
    return task


def _of_characters(items: Sequence[Any]) -> bool:
    """Whether words are single characters, as Chinese texts are often tagged; few may be longer."""
    words = [word for item in items for word in item.words]
    chinese, longer = sum(map(is_chinese, words)), sum(len(word) > 1 for word in words)
    return 2 * chinese > len(words) and 100 * longer <= len(words)


def _tags(data: Labelled) -> list[tuple[str, ...]]:
    return [item.tags or () for item in data.items if isinstance(item, WordsItem)]


def _all_tags(labels: Sequence[str], scheme: Scheme) -> list[str]:
    """Every tag the scheme has for the types that occur: dev may hold some that train lacks."""
    if not scheme.begins:
        return list(labels)
    spelling = spelling_of(labels) or PLAIN_SPELLING
    read = [spelling.read(label) for label in labels if label not in NOT_TAGS]
    types = sorted({tag.type for tag in read if tag is not None and tag.role != OUTSIDE})
    made = [spelling.write(Written(role, name)) for name in types for role in scheme.roles]
    return list(dict.fromkeys([OUTSIDE, *made]))


def _one_scheme(
    train: Labelled, dev: Labelled | None, asked: str | None
) -> tuple[Labelled, Labelled | None, Scheme, list[str]]:
    """Tags that follow the rules of the scheme that is asked for; broken ones are repaired.

    If none is asked for they stay in their own, but IOB1 becomes BIO.
    """
    scheme = find_scheme(scheme_of_sequences(_tags(train)))
    if not scheme.begins:
        return train, dev, scheme, []
    target = find_scheme(asked) if asked else BIO if scheme is IOB1 else scheme
    labels = {tag for tags in _tags(train) for tag in tags}
    spelling = spelling_of(labels) or PLAIN_SPELLING
    used = "" if scheme is target else f"; they are used as {target.name}"
    said = [f"The tags are {scheme.name}{used}."]
    repaired = 0

    def settled(data: Labelled) -> Labelled:
        nonlocal repaired
        items = []
        for item in data.items:
            assert isinstance(item, WordsItem)
            if item.tags is None:
                items.append(item)
                continue
            try:
                fault = scheme.fault(spelling.read_all(item.tags)) is not None
            except InputError as error:
                raise InputError(f"{item.place}: {error}") from error
            repaired += fault
            if fault or scheme is not target:
                tags = convert(item.tags, scheme, target, spelling=spelling, invalid="promote")
                item = replace(item, tags=tuple(tags))
            items.append(item)
        return replace(data, items=items)

    train, dev = settled(train), None if dev is None else settled(dev)
    if repaired:
        said.append(
            f"{repaired:,} sentences have tags out of order, such as an entity that begins with "
            f"{spelling.write(Written('I', 'X'))}; they are read as conlleval does."
        )
    return train, dev, target, said

"""Jobs as a program calls them: `cw.finetune`, `cw.pretrain`, `cw.evaluate`, `cw.mine`.

They take objects as well as names and files, show progress and a summary, and name arguments of
Python in their messages. The commands use the jobs themselves.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.data.files.vectors import check_output
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import named_columns
from clozeworks.data.labelled.in_memory import data_sources
from clozeworks.data.labelled.reading import Reading
from clozeworks.display.progress import ProgressBar
from clozeworks.display.training import TrainingProgress
from clozeworks.engine.callbacks import Callback
from clozeworks.errors import SET, SettingError, Stated, UnknownName
from clozeworks.jobs.finetune import job as finetuning
from clozeworks.jobs.finetune.arguments import (
    FinetuneCall,
    check_model,
    checked_callbacks,
    checked_function,
    is_recipe,
    model_call,
    recipe_call,
    run_folder,
    task_settings,
)
from clozeworks.jobs.finetune.job import Finetuned
from clozeworks.jobs.finetune.objects import RunObjects
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.jobs.finetune.search import Searched, search
from clozeworks.jobs.pretrain import job as pretraining
from clozeworks.jobs.pretrain.recipe import Recipe, changed, read_recipe
from clozeworks.jobs.pretrain.summary import Pretrained
from clozeworks.jobs.search.mine import (
    MINED_SUFFIXES,
    Mined,
    RowLayout,
    mine_negatives,
    mining_texts,
)
from clozeworks.jobs.short_forms import PRETRAIN_KEYWORDS, lay_over, written_out
from clozeworks.jobs.training_result import TrainingResult
from clozeworks.language_model import LanguageModel, load
from clozeworks.language_model.arguments import as_arguments, in_python
from clozeworks.language_model.evaluated import EvaluatedModel, NamedColumns, Tell
from clozeworks.objectives.custom_loss import LabelLossFunction
from clozeworks.recipes import recipe_file
from clozeworks.search.mining import MiningRules
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.metrics.custom import Metric
from clozeworks.tasks.task import Task
from clozeworks.wording import visible

# What `pretrain` takes besides settings.
_OWN = ("callbacks", "quiet")
_LOSS_TAKES = "logits and labels"
_METRIC_TAKES = "what is right and what was predicted"


def finetune(
    model: LanguageModel | FinetuneRecipe | Mapping[str, Any] | Path | str,
    data: Any = None,
    *changes: str,
    task: str | Mapping[str, Any] | Task[Any, Any] | type[Task[Any, Any]] | None = None,
    dev: Any = None,
    out: Path | str | None = None,
    columns: NamedColumns = None,
    loss: LabelLossFunction | None = None,
    metric: Metric | str | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    device: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Finetuned | Searched:
    """Fine-tunes a model on labelled data, or goes on with a run that was stopped.

        result = cw.finetune("path/or/hub-name", frame, task="classify", epochs=3, lr=5e-5)
        result.metrics, result.folder
        model = result.load()

    or as a recipe says: `cw.finetune("recipe.toml", "training.epochs=5")`, or `cw.finetune({...})`
    with what the file would hold.

    The run is in the folder `out`: the same call with the same folder goes on where it stopped, to
    the bit. Rows that are not in files are written there, as `data/train.jsonl`. A run goes on only
    with the same data, model, loss, metric and settings it was begun with. `model` itself is not
    changed.

    Args:
        model: A model, a model folder or a hub name. Or a recipe: a TOML file, a dict, or a
            `FinetuneRecipe`; then settings to change follow, as texts.
        data: Labelled data: a file or several; a frame of pandas, polars or pyarrow; a dataset of
            `datasets`; a dict of columns; a list of dicts, tuples or items. A dict of splits, or a
            `DatasetDict`, is learned from by its "train" and measured on its "validation" or "dev".
        changes: Settings to change, as a command takes them: `"training.epochs=5"`.
        task: classify, compare, tag, answer or text_to_text; a dict with this `kind` and settings
            of the task; a class derived from `Task`, or an object of one. What the model was
            trained for if not given.
        dev: Data to be measured on, in any form; a tenth of the data (`dev_fraction`) if not given.
        out: The folder of the run; if not given the next free one of runs/classify-1, -2 and so on.
        columns: Which column is what, such as `{"text": "review", "label": "stars"}`; found if not
            given.
        loss: A function of logits and labels that returns what each label costs, a tensor with one
            number for each: `lambda logits, labels: F.cross_entropy(logits, labels,
            reduction="none")`. For classify, compare, and tag without crf. The task's own if not
            given.
        metric: What decides which weights are best: a name, or a function of what is right and what
            was predicted.
        callbacks: Objects of classes derived from `cw.Callback`; one that fails is reported and
            does not end the run.
        device: cpu, cuda, cuda:1, mps or auto; as the recipe says, or else auto, if not given.
        quiet: Whether nothing is shown.
        settings: Settings of a recipe by their names (`lora={"rank": 8}`, `evaluation={"per_epoch":
            4}`), and short forms of the usual ones: epochs, steps, lr or learning_rate, batch_size,
            weight_decay, warmup_fraction, max_length, patience, seed, seeds, optimizer, schedule,
            precision, skip_bad_rows, labels, dev_fraction and others that
            `clozeworks.jobs.short_forms` lists.

    Returns:
        What came out: `result.metrics`, `result.summary()`, `result.load()` for the model,
        `result.model` for its folder, `result.report` for the page about it. With `search`, what
        the search came to.

    Raises:
        SettingError: If a setting cannot be used, or is not the one the run was begun with.
        UnknownName: If there is no such task or setting.
        InputError: If the data cannot be used.
        OutputError: If the folder holds something else, or another program uses it.
    """
    several = checked_callbacks(callbacks)
    own = checked_function("metric", None if isinstance(metric, str) else metric, _METRIC_TAKES)
    objects = RunObjects(loss=checked_function("loss", loss, _LOSS_TAKES), metric=own)
    given = {"metric": metric, "columns": columns}
    named = {**settings, **{n: v for n, v in given.items() if v is not None and v is not own}}
    if is_recipe(model):
        for name, value in (("task", task), ("dev", dev)):
            if value is not None:
                raise SettingError(name, SET, "the recipe says it", "leave it out")
        positional = changes if data is None else (data, *changes)
        call = recipe_call(model, positional, named, objects)
        if out is not None:
            call.recipe["run"] = str(out)
        return _finetune(call, several, device, quiet=quiet)
    check_model(model)
    with in_python():
        kind = task_settings(task, model)[0].get("kind", "finetune")
    with run_folder(out, str(kind)) as folder:
        with in_python():
            call = model_call(
                model, data, changes,
                task=task, dev=dev, out=folder, settings=named, objects=objects,
            )  # fmt: skip
        return _finetune(call, several, device, quiet=quiet)


def pretrain(
    recipe: Recipe | Mapping[str, Any] | Path | str,
    *changes: str,
    callbacks: Callback | Sequence[Callback] = (),
    device: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Pretrained:
    """Pre-trains a model, or goes on with a run that was stopped.

        result = cw.pretrain("laptop-english", run="run", data={"corpus": "corpus"})
        model = result.load()

    Args:
        recipe: A TOML file, the name of a recipe that comes with the package, a dict with what the
            file would hold, or a `Recipe`.
        changes: Settings to change, as a command takes them: `"training.steps=2000"`.
        callbacks: Objects of classes derived from `cw.Callback`; one that fails is reported and
            does not end the run.
        device: cpu, cuda, cuda:1, mps or auto; as the recipe says, or else auto, if not given.
        quiet: Whether nothing is shown.
        settings: Settings of the recipe by their names, which are laid over it: `run="folder"`,
            `training={"steps": 2000}`; those of training also by themselves: `steps=2000`.

    Returns:
        What came out: `result.summary()`, `result.load()` for the model, `result.model` for its
        folder, `result.report` for the page about it.

    Raises:
        SettingError: If a setting cannot be used, or is not the one the run was begun with.
        OutputError: If the folder holds something else, or another program uses it.
    """
    several = checked_callbacks(callbacks)
    if not isinstance(recipe, Recipe | Mapping | Path | str):
        rule = "it must be a TOML file, the name of a recipe, or a dict"
        raise SettingError("recipe", Stated(type(recipe).__name__), rule)
    with in_python():
        known = [field.name for field in fields(Recipe)]
        over = written_out(settings, PRETRAIN_KEYWORDS, known, "An argument of pretrain", _OWN)
        if isinstance(recipe, Recipe):
            plain = config.plain(recipe)
        elif isinstance(recipe, str) and not Path(recipe).suffix and not Path(recipe).exists():
            plain = changed(recipe_file(recipe), ())
        else:
            plain = changed(dict(recipe) if isinstance(recipe, Mapping) else recipe, ())
        lay_over(plain, over)
        settled = read_recipe(changed(plain, changes))
    with _shown(quiet) as display:
        result = pretraining.pretrain(settled, callback=display, callbacks=several, device=device)
        _tell(result, display)
    return result


def evaluate(model: LanguageModel | Path | str, data: Any, **options: Any) -> EvaluatedModel:
    """Measures how good a model is on labelled data, with intervals of 95 %.

        result = cw.evaluate("path/or/hub-name", "test.csv")
        result.value, result.values

    Args:
        model: A model, a model folder or a hub name.
        data: A file or several, a frame of pandas, polars or pyarrow, a dataset, a dict of columns,
            or a list of rows or items.
        options: As for `LanguageModel.evaluate`: task, columns, labels, metric, threshold, quiet
            and so on.

    Raises:
        InputError: If the data cannot be used.
        UnsupportedError: If the model has no head for the task.
    """
    check_model(model)
    loaded = model if isinstance(model, LanguageModel) else load(model)
    return loaded.evaluate(data, **options)


def mine(
    data: Any,
    model: LanguageModel | Path | str,
    out: Path | str,
    *,
    corpus: Sequence[Path | str] = (),
    columns: NamedColumns = None,
    rerank: LanguageModel | Path | str | None = None,
    layout: RowLayout = "triplets",
    skip_bad_rows: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    **rules: Any,
) -> Mined:
    """Finds hard negatives for pairs of texts, and writes rows to learn from.

        mined = cw.mine("pairs.jsonl", "path/or/hub-name", "triplets.jsonl", relative_margin=0.05)
        mined.report.dropped

    Args:
        data: Pairs of anchor and positive: a file or several, a frame, a dataset, a dict of columns
            or a list of rows; or a folder in BEIR's layout.
        model: The sentence model that says what is near: a model, a model folder or a hub name.
        out: The file that is written: .jsonl or .tsv.
        corpus: Files of further texts to choose from.
        columns: Which column is what, such as `{"anchor": "question"}`; found if not given.
        rerank: A model that compares two texts, to score candidates and positives again.
        layout: triplets, a row for each negative; or tuples, a row for each pair.
        skip_bad_rows: Whether rows that cannot be used are dropped.
        overwrite: Whether a file that exists is replaced.
        quiet: Whether nothing is shown.
        rules: Those of `MiningRules`: negatives, relative_margin, absolute_margin, max_score,
            min_score, range_min, range_max, sampling, seed.

    Raises:
        InputError: If the data cannot be used, or no negative is left.
        OutputError: If the file exists or cannot be written.
    """
    check_model(model)
    known = [field.name for field in fields(MiningRules)]
    for name in rules:
        if name not in known:
            raise UnknownName("An argument of mine", name, known)
    with in_python(), nullcontext() if quiet else ProgressBar("tokens") as progress:
        check_output(Path(out), overwrite=overwrite, suffixes=MINED_SUFFIXES, name="triplets")
        settled = MiningRules(**rules)
        reading = Reading(columns=named_columns(columns, EmbedItem))
        bad = BadRows(skip=skip_bad_rows)
        sources = data_sources(data, "data")
        tell: Tell = (lambda sentence: None) if quiet else _say
        texts = mining_texts(sources, [*map(Path, corpus)], reading, bad, tell)
        loaded = model if isinstance(model, LanguageModel) else load(model)
        second = load(rerank) if isinstance(rerank, Path | str) else rerank
        return mine_negatives(
            loaded,
            texts,
            Path(out),
            settled,
            layout=layout,
            rerank=second,
            tell=tell,
            progress=progress,
        )


def _say(sentence: str) -> None:
    print(visible(as_arguments(sentence), lines=True), file=sys.stderr)


class _Display(TrainingProgress):
    """Shows a run to somebody who called from Python."""

    def on_message(self, message: str) -> None:
        """Shows a sentence."""
        super().on_message(visible(as_arguments(message), lines=True))


def _finetune(
    call: FinetuneCall, callbacks: Sequence[Callback], device: str | None, *, quiet: bool
) -> Finetuned | Searched:
    with in_python(call.names), _shown(quiet) as display:
        run = search if "search" in call.recipe else finetuning.finetune
        result: Finetuned | Searched = run(
            call.recipe,
            callback=display,
            callbacks=callbacks,
            device=device,
            objects=call.objects,
        )
        _tell(result, display)
    return result


@contextmanager
def _shown(quiet: bool) -> Iterator[_Display | None]:
    if quiet:
        yield None
        return
    with _Display() as display:
        yield display


def _tell(result: TrainingResult, display: _Display | None) -> None:
    """Shows what came out; where several processes share a run, the first one does."""
    stopped = result.outcome is not None and not result.outcome.finished
    if display is not None and (stopped or result.model is not None):
        for line in result.told():
            display.on_message(line)

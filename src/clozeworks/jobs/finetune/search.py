"""A small search for settings of fine-tuning, and an honest number at its end.

The dev set is split once. One half chooses: the best step of each trial, the best setting, the best
seed. The other half has no say in anything and is measured once, with what was chosen: the best of
many trials on the half that chose them is flattered by having been chosen, and says so.

Each trial is a run of the engine in a folder of its own, `trial-N`, so that a search can be killed
anywhere and goes on exactly.
"""

import itertools
import json
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from clozeworks import config
from clozeworks.checkpoints.tasks import about_head
from clozeworks.checkpoints.whole_folder import copy_model, fresh_folder
from clozeworks.data.labelled.report import report_on
from clozeworks.data.labelled.splitting import split
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.trainer import Outcome
from clozeworks.errors import MISSING, InputError, SettingError
from clozeworks.inference.predict import answers
from clozeworks.jobs.finetune.data import LabelledTask, labelled_task
from clozeworks.jobs.finetune.objects import RunObjects
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, read_finetune_recipe
from clozeworks.jobs.finetune.report import seed_summary, write_report
from clozeworks.jobs.finetune.run import FinetuneRun, RunResult, identity
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.jobs.training_result import TrainingResult
from clozeworks.language_model import LanguageModel, load
from clozeworks.reports.summary import TrialSummary
from clozeworks.rng import RandomStream
from clozeworks.runs.folder import MODEL, RECIPE, SEARCH
from clozeworks.runs.recorder import RunRecorder, open_run
from clozeworks.runs.session import FREE, differences
from clozeworks.runtime.devices import find_device
from clozeworks.spec import AtLeast, PositiveFloat, PositiveInt, spec
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import read_notes
from clozeworks.tasks.metrics.measured import Measured, best_of
from clozeworks.tasks.task import Task
from clozeworks.wording import counted

# The seed of the split and of the choice of settings: another one would be another search.
_SEED = 0

Setting = dict[str, float | int]


@spec
class Search:
    """What is tried, and how often at most."""

    trials: Annotated[int, AtLeast(2)] = 8
    """Trials at most; of more settings than that, some are drawn at random."""
    learning_rates: tuple[PositiveFloat, ...] = ()
    """Learning rates to try; only the recipe's if none is given."""
    epochs: tuple[PositiveFloat, ...] = ()
    """Numbers of epochs to try."""
    batch_sizes: tuple[PositiveInt, ...] = ()
    """Batch sizes to try, in items."""

    def __post_init__(self) -> None:
        if len(self._all()) < 2:
            rule = "there is one setting only, and nothing to choose"
            advice = "give several learning rates, epochs or batch sizes, such as [2e-5, 5e-5]"
            raise SettingError("learning_rates", list(self.learning_rates), rule, advice)

    def settings(self) -> list[Setting]:
        """What is tried, in order: every combination, or as many drawn ones as there are trials."""
        every = self._all()
        if len(every) <= self.trials:
            return every
        drawn = RandomStream(_SEED, "search").permutation(0, len(every))[: self.trials]
        return [every[number] for number in sorted(drawn.tolist())]

    def check(self, training: Any) -> None:
        """Refuses settings of training that are searched as well: they would have no effect.

        Raises:
            SettingError: If a searched setting is set as well.
        """
        for name in self._all()[0]:
            if isinstance(training, dict) and training.get(name) is not None:
                searched = name if name == "epochs" else f"{name}s"
                rule = f"`search.{searched}` tries others"
                raise SettingError(
                    f"training.{name}", training[name], rule, "leave one of them out"
                )

    def _all(self) -> list[Setting]:
        lists = {
            "learning_rate": self.learning_rates,
            "epochs": self.epochs,
            "batch_size": self.batch_sizes,
        }
        names = [name for name, values in lists.items() if values]
        products = itertools.product(*(dict.fromkeys(lists[name]) for name in names))
        return [dict(zip(names, values, strict=True)) for values in products]


@dataclass(frozen=True, repr=False)
class Searched(TrainingResult):
    """What a search came to."""

    folder: Path
    """The run."""
    trials: Sequence[tuple[Setting, RunResult]]
    """Each setting that is done, and what it came to on the half that chooses."""
    results: Sequence[RunResult] = ()
    """The seeds of the best setting, of those that are done."""
    reported: Sequence[Measured] = ()
    """How good each of them is on the half that had no say."""
    outcome: Outcome | None = None
    """How the last session ended; None if nothing was left to do."""
    model: Path | None = None
    """The model's folder; None if the search is not at its end."""
    report: Path | None = None
    """The page that tells all of it; None if there is none."""
    cost: str | None = None
    """Which value decides between equal ones; None if none does."""
    chats: bool = False
    """Whether the model learned from chats alone."""

    @property
    def best_trial(self) -> int:
        """The best trial by its primary value, then by what items cost."""
        return best_of([result.measured for _, result in self.trials], self.cost)

    @property
    def best_seed(self) -> int:
        """The place of the best seed by the half that chooses."""
        return best_of([result.measured for result in self.results], self.cost)

    @property
    def metrics(self) -> dict[str, float]:
        """Every value of the best seed on the half that had no say; empty if it is not known."""
        return dict(self.reported[self.best_seed].values) if self.reported else {}

    def summary(self) -> list[str]:
        """What came out, in a few lines; the number that flatters says that it does."""
        setting, tried = self.trials[self.best_trial]
        reported, name = self.reported[self.best_seed], tried.measured.primary
        values = [measured.value for measured in self.reported]
        lines = [
            f"Best of {len(self.trials)} trials: {_in_words(setting)}; {name} "
            f"{tried.measured.value:.4f} on the {tried.measured.count:,} items that chose it: "
            "being chosen by them, it flatters.",
            f"On the {reported.count:,} items that had no say: {name} {reported.value:.4f}, seed "
            f"{self.results[self.best_seed].seed}.",
        ]
        if len(values) > 1:
            lines.append(
                f"Over {len(values)} seeds, on the same items: mean {statistics.mean(values):.4f}, "
                f"spread {statistics.stdev(values):.4f}."
            )
        lines += reported.lines()
        if self.report is not None:
            lines.append(f"Trials, curves, mistakes and everything else: {self.report}")
        return lines


def search(
    source: Path | str | dict[str, Any],
    *changes: str,
    callback: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    device: str | None = None,
    objects: RunObjects | None = None,
) -> Searched:
    """Tries settings, then trains the best one with the recipe's seeds.

    Args:
        source: A recipe of fine-tuning with a table `search`, as a TOML file or as plain data.
        changes: Settings to change: `search.trials=4`.
        callback: The display, or None.
        callbacks: Callbacks of yours; one that fails is reported and does not end the run.
        device: Where to compute: cpu, cuda, cuda:1, mps or auto; as the recipe says if not given.
        objects: What a program hands to the run beside the recipe.

    Raises:
        SettingError: If a setting cannot be used.
        InputError: If the labelled files cannot be used.
        OutputError: If the folder holds something else, or another program uses it.
    """
    data = changed(source, changes)
    if "search" not in data:
        rule = "it must say what is tried, such as search = {learning_rates = [2e-5, 5e-5]}"
        raise SettingError("search", MISSING, rule)
    budget: Search = config.read(Search, data.pop("search"), "search")
    budget.check(data.get("training", {}))
    recipe = read_finetune_recipe(data)
    device = str(find_device(device or recipe.device))
    objects = objects or RunObjects()
    start = objects.start(recipe.model)
    labelled = labelled_task(recipe, start, objects)
    folder = Path(recipe.run)
    opened = open_run("search", folder, recipe.logging, callback, callbacks, device)
    with opened as (ranks, recorder):
        searched = _Searching(recipe, budget, start, labelled, ranks, recorder).run()
        stopped = searched.outcome.step if searched.outcome is not None else None
        recorder.end(finished=searched.model is not None, step=stopped)
        return searched


class _Searching:
    """A search under way."""

    def __init__(
        self,
        recipe: FinetuneRecipe,
        budget: Search,
        start: LanguageModel,
        data: LabelledTask,
        ranks: ProcessGroup,
        callback: RunRecorder,
    ) -> None:
        self.recipe, self.budget, self.start = recipe, budget, start
        self.ranks, self.callback, self.folder = ranks, callback, Path(recipe.run)
        if len(data.dev) < 2:
            raise InputError(
                f"the dev set has {counted(len(data.dev), 'item')}; a search needs at least 2, one "
                "to choose by and one to report on; name a larger file, or raise data.dev_fraction."
            )
        chooses, self.apart = split(data.dev, 0.5, _SEED)
        self.data = replace(data, dev=chooses)
        self.predictions: dict[int, list[Any]] = {}  # of each seed for the half apart

    def run(self) -> Searched:
        """Goes through what is left of it."""
        settings = self.budget.settings()
        for setting in settings:  # all of them, before anything is written
            self._recipe(setting)
        head = about_head(self.start.checkpoint, self.data.task, self.recipe.head)
        if self.ranks.leads:
            self._begin(settings)
        self.callback.start(self.ranks.count)
        for message in (*self.data.messages, *filter(None, [head])):
            self.callback.on_message(message)
        self.callback.on_message(
            f"{len(settings)} trials. {len(self.data.dev):,} items of the dev set choose; the "
            f"other {len(self.apart):,} have no say, and the result is reported on them."
        )
        searched = Searched(self.folder, [], cost=self.data.task.cost_value, chats=self.data.chats)
        for number, setting in enumerate(settings):
            self.callback.on_message(f"Trial {number}: {_in_words(setting)}.")
            part, seed = f"trial {number + 1} of {len(settings)}", self.recipe.seeds[0]
            outcome, result = self._train(part, setting, seed, f"trial-{number}")
            searched = replace(searched, outcome=outcome)
            if result is None:
                return searched
            searched = replace(searched, trials=[*searched.trials, (setting, result)])
        # All ranks must train the same, whatever the last bits on each.
        number = int(self.ranks.agreed(searched.best_trial))
        best = settings[number]
        self.callback.on_message(f"The best is trial {number}: {_in_words(best)}.")
        if self.ranks.leads:
            self._reuse(number)
        self.ranks.agreed(0.0)  # the others wait for it
        for number, seed in enumerate(self.recipe.seeds, 1):
            part = f"seed {number} of {len(self.recipe.seeds)}"
            outcome, result = self._train(part, best, seed, f"seed-{seed}")
            searched = replace(searched, outcome=outcome)
            if result is None:
                return searched
            searched = replace(searched, results=[*searched.results, result])
            if self.ranks.leads:  # it wrote the model, and knows when it is there
                searched = replace(searched, reported=[*searched.reported, self._reported(result)])
        return self._finished(searched)

    def _train(
        self, part: str, setting: Setting, seed: int, name: str
    ) -> tuple[Outcome | None, RunResult | None]:
        folder, recipe = self.folder / name, self._recipe(setting)
        self.callback.enter(part, folder)
        run = FinetuneRun(recipe, self.data, self.start, seed, folder, self.ranks, self.callback)
        if self.ranks.leads:
            run.check()
        return run.run()

    def _recipe(self, setting: Setting) -> FinetuneRecipe:
        training = replace(self.recipe.training, **setting)  # type: ignore[arg-type]
        return replace(self.recipe, training=training)

    def _reuse(self, trial: int) -> None:
        """The best trial was the run of its first seed already: it is not trained again."""
        target = self.folder / f"seed-{self.recipe.seeds[0]}"
        if not target.exists():
            fresh = target.with_name(f".{target.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.copytree(self.folder / f"trial-{trial}", fresh)
            fresh.rename(target)

    def _reported(self, result: RunResult) -> Measured:
        model = load(result.folder / MODEL, device=self.ranks.device)
        task, max_length = model.task, model.max_length  # as the seed settled it, threshold and all
        assert task is not None
        predictions = answers(task, model.model, model.tokenizer, self.apart, max_length=max_length)
        self.predictions[result.seed] = predictions
        return self.data.measure(task, self.apart, predictions, intervals=True)

    def _begin(self, settings: Sequence[Setting]) -> None:
        """Writes down what is searched; refuses a folder that holds another search."""
        recipe, objects = config.plain(self.recipe), self.data.objects
        stated = objects.written(recipe)
        plan = {
            # More seeds may be asked for later.
            "recipe": {k: value for k, value in stated.items() if k not in (*FREE, "seeds")},
            "search": config.plain(self.budget),
            "settings": list(settings),
            "chooses": identity(self.data.dev),
            "reports": identity(self.apart),
            "train": identity(self.data.train),
            **objects.identity,
        }
        plan = json.loads(json.dumps(plan))
        before = config.read_json(self.folder / SEARCH, optional=True).get("plan")
        other = [] if before is None else differences(before, plan)
        if before is None and (self.folder / RECIPE).exists():
            other = ["it holds a run without a search"]
        if other:
            rule = f"it was begun as something else: {'; '.join(other[:8])}"
            raise SettingError("run", str(self.folder), rule, "name another folder")
        write_json(self.folder / RECIPE, recipe)  # from here on the folder is a run
        if before is None:
            write_json(self.folder / SEARCH, {"plan": plan})
        objects.write(self.folder, self.data.files[0].item)

    def _finished(self, searched: Searched) -> Searched:
        if not self.ranks.leads:
            return searched
        best = searched.results[searched.best_seed]
        with fresh_folder(self.folder / MODEL, overwrite=True) as temporary:
            copy_model(best.folder / MODEL, temporary)
        before = config.read_json(self.folder / SEARCH)
        write_json(self.folder / SEARCH, {"plan": before["plan"], **_record(searched)})
        # What chose has no say in how good it is: only the other half is reported.
        reported = searched.reported[searched.best_seed]
        self.callback.score(reported.primary, reported.value)
        report = self._report(searched)
        return replace(searched, model=self.folder / MODEL, report=report)

    def _report(self, searched: Searched) -> Path | None:
        """Writes the report: every value in it is of the half that had no say."""
        results = [
            replace(result, measured=apart)
            for result, apart in zip(searched.results, searched.reported, strict=True)
        ]
        train, dev = self.data.files[0], replace(self.data.files[1], items=self.apart)
        notes = read_notes(self.folder / MODEL)
        task = config.read(Task, notes["task"], "task")
        return write_report(
            self.folder,
            self._recipe(searched.trials[searched.best_trial][0]),
            replace(
                self.data,
                task=task,
                dev=self.apart,
                files=(train, dev),
                report=report_on(
                    train, dev, tokenizer=self.start.tokenizer, window=task.windows.length
                ),
            ),
            results,
            results[searched.best_seed],
            device=self.ranks.device,
            callback=self.callback,
            predictions=self.predictions[searched.results[searched.best_seed].seed],
            trials=[
                TrialSummary(
                    _in_words(setting), seed_summary(result), kept=number == searched.best_trial
                )
                for number, (setting, result) in enumerate(searched.trials)
            ],
        )


def _record(searched: Searched) -> dict[str, Any]:
    pairs = zip(searched.results, searched.reported, strict=True)
    return {
        "trials": [
            {"trial": number, **setting, "step": result.step, **result.measured.to_dict()}
            for number, (setting, result) in enumerate(searched.trials)
        ],
        "best_trial": searched.best_trial,
        "best_seed": searched.results[searched.best_seed].seed,
        "seeds": {
            str(result.seed): {"chose": result.measured.to_dict(), "apart": apart.to_dict()}
            for result, apart in pairs
        },
    }


def _in_words(setting: Mapping[str, float | int]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())

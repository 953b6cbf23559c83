"""Fine-tuning: a checkpoint and labelled files in; a model, its report and its numbers out."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.checkpoints.tasks import about_head
from clozeworks.checkpoints.whole_folder import copy_model, fresh_folder
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.trainer import Outcome
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.data import LabelledTask, labelled_task
from clozeworks.jobs.finetune.objects import RunObjects
from clozeworks.jobs.finetune.recipe import FinetuneRecipe, read_finetune_recipe
from clozeworks.jobs.finetune.report import write_report
from clozeworks.jobs.finetune.run import FinetuneRun, RunResult
from clozeworks.jobs.training_result import TrainingResult
from clozeworks.language_model import LanguageModel
from clozeworks.runs.folder import MODEL, RECIPE, RESULT, SEARCH
from clozeworks.runs.recorder import RunRecorder, open_run
from clozeworks.runtime.devices import find_device
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import read_notes
from clozeworks.tasks.metrics.measured import best_of
from clozeworks.tasks.task import Task
from clozeworks.wording import counted

METRICS = "metrics.json"


@dataclass(frozen=True, repr=False)
class Finetuned(TrainingResult):
    """What a run of fine-tuning came to."""

    folder: Path
    """The run."""
    results: Sequence[RunResult]
    """What each seed came to, of those that are done."""
    outcome: Outcome | None
    """How the last session of a seed ended; None if nothing was left to do."""
    model: Path | None
    """The best model's folder; None if the run is not at its end."""
    data: LabelledTask
    """The task and its items."""
    report: Path | None = None
    """The page that tells all of it; None if there is none."""

    @property
    def chats(self) -> bool:
        """Whether the model learned from chats alone."""
        return self.data.chats

    @property
    def best(self) -> RunResult:
        """The best seed on the dev set by its primary value, then by what items cost."""
        return self.results[best_of([r.measured for r in self.results], self.data.task.cost_value)]

    @property
    def metrics(self) -> dict[str, float]:
        """Every value of the best seed on the dev set; empty if no seed is done."""
        return dict(self.best.measured.values) if self.results else {}

    def summary(self) -> list[str]:
        """What came out, in a few lines."""
        best = self.best
        values = [result.measured.value for result in self.results]
        lines = list(best.measured.lines())
        if len(values) > 1:
            name = best.measured.primary
            lines.insert(
                0,
                f"{name} over {len(values)} seeds: mean {statistics.mean(values):.4f}, spread "
                f"{statistics.stdev(values):.4f} ({', '.join(f'{value:.4f}' for value in values)})."
                f" Below, the best of them, seed {best.seed}: being the best of several, it "
                "flatters.",
            )
        seconds = sum(result.seconds for result in self.results)
        tokens = sum(result.tokens for result in self.results)
        lines.append(
            f"{counted(best.measured.count, 'item')} of the dev set; {tokens:,} tokens in "
            f"{seconds:,.0f} s ({tokens / max(seconds, 1e-9):,.0f} a second); best at step "
            f"{best.step:,} of {best.steps:,}."
        )
        if self.report is not None:
            lines.append(f"Curves, mistakes and everything else: {self.report}")
        return lines

    def record(self) -> dict[str, Any]:
        """Everything that was measured, as plain data."""
        values = [result.measured.value for result in self.results]
        return {
            "task": config.plain(self.data.task),
            "primary": self.best.measured.primary,
            "best_seed": self.best.seed,
            "mean": statistics.mean(values),
            "spread": statistics.stdev(values) if len(values) > 1 else None,
            "seeds": {
                str(result.seed): {
                    **result.measured.to_dict(),
                    "step": result.step,
                    "tokens": result.tokens,
                    "seconds": round(result.seconds, 2),
                }
                for result in self.results
            },
        }


def finetune(
    recipe: FinetuneRecipe | Path | str | dict[str, Any],
    *changes: str,
    callback: Callback | None = None,
    callbacks: Sequence[Callback] = (),
    device: str | None = None,
    objects: RunObjects | None = None,
) -> Finetuned:
    """Fine-tunes a model on labelled files, or goes on with a run that was stopped.

    Args:
        recipe: A recipe, a TOML file, or what it would hold.
        changes: Settings to change: `training.epochs=5`.
        callback: The display, or None.
        callbacks: Callbacks of yours; one that fails is reported and does not end the run.
        device: Where to compute: cpu, cuda, cuda:1, mps or auto; as the recipe says if not given.
        objects: What a program hands to the run beside the recipe.

    Raises:
        SettingError: If a setting cannot be used, or is not the one the run was begun with.
        InputError: If the labelled files cannot be used.
        OutputError: If the folder holds something else, or another program uses it.
    """
    if not isinstance(recipe, FinetuneRecipe):
        recipe = read_finetune_recipe(recipe, changes)
    elif changes:
        recipe = read_finetune_recipe(config.plain(recipe), changes)
    folder, device = Path(recipe.run), str(find_device(device or recipe.device))
    objects = objects or RunObjects()
    start = objects.start(recipe.model)
    data = labelled_task(recipe, start, objects)
    opened = open_run("finetune", folder, recipe.logging, callback, callbacks, device)
    with opened as (ranks, recorder):
        done = _run(recipe, folder, start, data, ranks, recorder)
        stopped = done.outcome.step if done.outcome is not None else None
        recorder.end(finished=done.model is not None, step=stopped)
        return done


def _run(
    recipe: FinetuneRecipe,
    folder: Path,
    start: LanguageModel,
    data: LabelledTask,
    ranks: ProcessGroup,
    callback: RunRecorder,
) -> Finetuned:
    head = about_head(start.checkpoint, data.task, recipe.head)
    parts = [
        FinetuneRun(recipe, data, start, seed, folder / f"seed-{seed}", ranks, callback)
        for seed in recipe.seeds
    ]
    if ranks.leads:
        _check_folder(recipe, folder)
        for part in parts:  # all of them, before anything is written
            part.check()
        write_json(folder / RECIPE, config.plain(recipe))
        data.objects.write(folder, data.files[0].item)
    callback.start(ranks.count)
    for message in (*data.messages, *filter(None, [head])):
        callback.on_message(message)
    callback.on_message(
        f"{counted(len(data.train), 'item')} to learn from, {len(data.dev):,} to be judged by."
    )
    results: list[RunResult] = []
    outcome = None
    for number, part in enumerate(parts, 1):
        callback.enter(f"seed {number} of {len(parts)}", part.folder)
        outcome, result = part.run()
        if result is None:
            return Finetuned(folder, results, outcome, None, data)
        results.append(result)
        best = Finetuned(folder, results, outcome, None, data).best.measured
        callback.score(best.primary, best.value)
    done = Finetuned(folder, results, outcome, folder / MODEL if ranks.leads else None, data)
    if ranks.leads:
        # A seed may have settled what the data left open: weights of labels, a threshold.
        notes = read_notes(done.best.folder / MODEL)
        data = replace(data, task=config.read(Task, notes["task"], "task"))
        done = replace(done, data=data)
        _finish(done)
        predictions = parts[results.index(done.best)].predictions
        report = write_report(
            folder, recipe, data, results, done.best,
            device=ranks.device, callback=callback, predictions=predictions,
        )  # fmt: skip
        done = replace(done, report=report)
    return done


def _check_folder(recipe: FinetuneRecipe, folder: Path) -> None:
    """Refuses a folder that holds another task, a search, or seeds that would be left out."""
    another = "name another folder"
    if (folder / SEARCH).exists():
        advice = f"{another}, or go on with the search"
        raise SettingError("run", str(folder), "it holds a search of settings", advice)
    before = config.read_json(folder / RECIPE, optional=True)
    if not before:
        return
    kind = before.get("task", {}).get("kind", "another kind")
    if kind != recipe.task["kind"]:
        rule = f"it holds a run of {kind!r}, and the task is {recipe.task['kind']!r}"
        raise SettingError("run", str(folder), rule, another)
    seeds = before.get("seeds", [])
    done = [seed for seed in seeds if (folder / f"seed-{seed}" / RESULT).exists()]
    if not {*done} <= {*recipe.seeds}:
        rule = f"`run` holds the seeds {', '.join(map(str, done))}, and its model is the best of "
        rule += "them"
        raise SettingError("seeds", list(recipe.seeds), rule, f"have them all, or {another}")


def _finish(done: Finetuned) -> None:
    """The best model for people, and the numbers of all seeds."""
    write_json(done.folder / METRICS, done.record())
    # A copy, so that a seed's folder stays whole.
    with fresh_folder(done.folder / MODEL, overwrite=True) as temporary:
        copy_model(done.best.folder / MODEL, temporary)

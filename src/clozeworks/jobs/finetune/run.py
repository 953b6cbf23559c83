"""One seed of fine-tuning: a run of the engine with a task as its objective.

The folder of a seed is a run like any other: it can be killed and goes on exactly. When it is done
it holds `result.json` and the model, and its snapshots go.
"""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from clozeworks import config
from clozeworks.checkpoints.tasks import blueprint_for
from clozeworks.compress.lora import add_lora
from clozeworks.core.model import Model
from clozeworks.data.augment import AugmentSpec
from clozeworks.data.examples.loader import Loader
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.checkpointer import Checkpointer
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.evaluation import EarlyStopping, EvalResult, HeldOutEvaluation
from clozeworks.engine.metrics import MetricsLogger
from clozeworks.engine.param_groups import frozen_message
from clozeworks.engine.snapshots import Snapshots
from clozeworks.engine.stages import MicroBatcher, MicroBatches, Stage, Stages
from clozeworks.engine.trainer import Outcome, Trainer
from clozeworks.errors import InputError
from clozeworks.inference.predict import answers
from clozeworks.jobs.disk import check_disk
from clozeworks.jobs.finetune.adapting import (
    merged_pairs,
    objective_of,
    sampling_messages,
    save_with_adapter,
)
from clozeworks.jobs.finetune.data import LabelledTask
from clozeworks.jobs.finetune.examples import DistinctExamples, GuideVectors, TaskExamples
from clozeworks.jobs.finetune.plan import FinetunePlan
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.language_model import LanguageModel, load
from clozeworks.objectives.batch import Vocabularies
from clozeworks.reports.summary import SeedResult
from clozeworks.rng import RandomStream
from clozeworks.runs.folder import MODEL, RESULT, SNAPSHOTS
from clozeworks.runs.session import newest_snapshot, open_session, refuse_another_recipe
from clozeworks.runtime.allocator import memory_kept
from clozeworks.runtime.workers import WorkerPool
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import read_sealed, sealed
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.task import Change, Task
from clozeworks.wording import counted

# Words a model is asked for in place of another.
_GUESSES = 20


@dataclass(frozen=True)
class RunResult(SeedResult):
    """The result of one seed, and the folder where everything about it is."""

    folder: Path

    def write(self) -> None:
        """Writes it down; from then on the seed is done."""
        names = ("seed", "step", "steps", "tokens", "seconds")
        record = {name: getattr(self, name) for name in names}
        write_json(self.folder / RESULT, sealed({**record, "measured": self.measured.to_dict()}))

    @classmethod
    def read(cls, folder: Path) -> "RunResult":
        """Reads what `write` wrote."""
        advice = f"restore it, or remove {folder} to train this seed again."
        record = read_sealed(folder / RESULT, advice)
        measured = Measured.from_dict(record.pop("measured"))
        return cls(**record, measured=measured, folder=folder)


class FinetuneRun:
    """Trains one model.

    Args:
        recipe: The recipe.
        data: The task and its items.
        start: The model before the first step; it is left as it is.
        seed: The seed.
        folder: The folder of the seed.
        ranks: The processes that share the run.
        callback: Is told what happens.
    """

    def __init__(
        self,
        recipe: FinetuneRecipe,
        data: LabelledTask,
        start: LanguageModel,
        seed: int,
        folder: Path,
        ranks: ProcessGroup,
        callback: Callback,
    ) -> None:
        self.recipe, self.start = recipe, start
        head = blueprint_for(start.checkpoint, data.task).heads.get(data.task.head)
        self.data = replace(data, task=data.task.settled(data.train, head))
        self.objective = objective_of(self.data.task, recipe, data.objects.loss)
        self.seed, self.folder, self.ranks, self.callback = seed, folder, ranks, callback
        self.messages: list[str] = []
        self.predictions: list[Any] = []  # of the best weights for the dev set, once known
        self.plan = self._plan(recipe, data.shown)
        self.distinct: DistinctExamples | None = None
        if self.data.task.wants_distinct_texts:
            self._plan_distinct()
        self.snapshots = Snapshots(folder / SNAPSHOTS, recipe.checkpointing.keep)

    def _plan(self, recipe: FinetuneRecipe, items: int) -> FinetunePlan:
        return FinetunePlan.of(
            recipe,
            items,
            self.start.blueprint.count(),
            encoder_decoder=self.start.blueprint.decoder is not None,
            mean_length=self._examples(self.start, self.data.train).mean_length
            if recipe.training.batch_tokens
            else 1.0,
        )

    def _plan_distinct(self) -> None:
        """Plans steps that have no text twice: how many there are is counted.

        Raises:
            InputError: If no two rows can stand in one step.
        """
        size = self.plan.batch_size
        wanted = self.recipe.training.batch_size or size
        first = self._distinct(size).epoch(0)
        if not len(first.order):  # no whole step can be had
            size, first = first.rest, self._distinct(first.rest).epoch(0)
        if size < 2:
            raise InputError(
                "no two rows of the training data can be compared: all of them share a text, or "
                "there is only one; the other rows of a step are what a text is compared with; add "
                "rows with other texts."
            )
        training = replace(self.recipe.training, batch_size=size, batch_tokens=None)
        self.plan = self._plan(replace(self.recipe, training=training), len(first.order))
        self.distinct = self._distinct(size)
        if size < wanted:
            self.messages.append(
                f"A step has {size:,} rows and not {wanted:,}: no more of them share no text."
            )
        repeated = first.left_out - first.rest
        if first.moved or repeated:
            self.messages.append(
                f"No step has a text twice: in the first epoch {counted(first.moved, 'row')} moved "
                f"to a later step, and {counted(repeated, 'row is', 'rows are')} left out; other "
                "epochs leave out others."
            )
        if first.rest:
            self.messages.append(
                f"The last {counted(first.rest, 'row')} of an epoch would make a step smaller than "
                f"{size:,}, and {'is' if first.rest == 1 else 'are'} left out; other epochs leave "
                "out others."
            )

    def _distinct(self, size: int) -> DistinctExamples:
        return DistinctExamples(
            self.data.task,
            self.data.train,
            self.start.tokenizer,
            max_length=self.start.max_length,
            batch_size=size,
            seed=self.seed,
            epochs=math.ceil(self.plan.epochs) + 1,
            change=self.data.change,
        )

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return (self.folder / RESULT).exists()

    def check(self) -> None:
        """Refuses to go on with another recipe than the seed was begun with, or without room.

        Raises:
            SettingError: If a setting differs, or does not fit to the model; names it.
            OutputError: If there is not enough room on the disk.
        """
        self.recipe.training.freezing.check(self.start.model)
        begun = self.done or bool(self.snapshots.steps())
        refuse_another_recipe(self.folder, self._written(), begun=begun)
        if not begun:
            # What heads and adapters add is known only when they are made; then it looks again.
            model = sum(weight.nbytes for weight in self.start.model.parameters())
            self._check_disk(model, trained=0 if self.recipe.lora is not None else model)

    def run(self) -> tuple[Outcome | None, RunResult | None]:
        """Trains, or goes on; what it came to if it is done.

        Returns:
            How this session ended, None if there was nothing left to do; and the result, None if it
            is not done.
        """
        if self.done:
            self._remove_snapshots()  # a session may have been killed before it could
            return None, RunResult.read(self.folder)
        self.recipe.training.check_device(self.ranks.device)
        for message in (
            self.plan.message(),
            *self.messages,
            *sampling_messages(self.recipe, self.plan.steps),
        ):
            self.callback.on_message(f"Seed {self.seed}: {message}")
        model = self.start.for_task(self.data.task, seed=self.seed, head=self.recipe.head)
        model.model.load_state_dict(dict(self.data.weights), strict=False)
        network = model.model.to(self.ranks.device)
        if (dropout := self.data.task.dropout) is not None:
            network.set_dropout(dropout)
        self.objective.check(network.blueprint)
        if (lora := self.recipe.lora) is not None:
            add_lora(network, lora, seed=self.seed)
        with memory_kept(), WorkerPool(self.ranks.device) as workers:
            return self._trained(model, network, workers)

    def _trained(
        self, model: LanguageModel, network: Model, workers: WorkerPool
    ) -> tuple[Outcome, RunResult | None]:
        recipe, objective = self.recipe, self.objective
        plan, snapshots = self.plan, self.snapshots
        snapshot = newest_snapshot(snapshots, self.callback)
        names, saving = objective.loss_names, recipe.checkpointing
        if snapshot is None and self.ranks.leads:
            sizes = [(weight.nbytes, weight.requires_grad) for weight in network.parameters()]
            trained = sum(size for size, is_trained in sizes if is_trained)
            self._check_disk(sum(size for size, _ in sizes), trained)
        best = EarlyStopping(patience=recipe.selection.patience)
        evaluation = HeldOutEvaluation(
            names,
            self._held_out(model, workers),
            plan.evaluation.every_steps,
            partial(self._evaluated, model),
            best,
        )
        written = self._written()
        session = open_session(self.folder, snapshots, snapshot, written, self.ranks, self.callback)
        with session as (metrics, callback):
            trainer = Trainer(
                model=network,
                loss=objective.batch_loss,
                over_vectors=cast(Any, objective) if self.data.task.loss_over_step else None,
                stages=Stages([Stage(self._loader(model, workers), plan.steps)]),
                training=plan.training,
                seed=self.seed,
                ranks=self.ranks,
                workers=workers,
                builtin=(
                    MetricsLogger(names, plan.logging, metrics, saving.when_unwritable),
                    evaluation,
                    Checkpointer(snapshots, saving),
                ),
                callback=callback,
            )
            if message := frozen_message(network):
                callback.on_message(message)
            if snapshot is not None:
                trainer.resume(snapshot)
                snapshot.tensors.clear()
                callback.on_message(
                    f"Seed {self.seed}: going on from step {snapshot.step:,} of {plan.steps:,}."
                )
            outcome = trainer.run()
        if not outcome.finished:
            return outcome, None
        best.restore(network)
        pairs = merged_pairs(model)
        saved = self.data.task.to_save()
        # What is measured is what is saved: merged weights may say something else.
        self.predictions = [] if pairs or saved != self.data.task else best.kept or []
        if saved != self.data.task:
            self.data, model = replace(self.data, task=saved), model.for_task(saved)
        model, measured = self._tuned(model)
        steps, tokens, seconds = outcome.step, outcome.tokens, outcome.seconds
        result = RunResult(self.seed, best.step, steps, tokens, seconds, measured, self.folder)
        if self.ranks.leads:
            lora = recipe.lora
            save_with_adapter(model, self.folder / MODEL, lora, pairs, recipe.model)
            result.write()
            self._remove_snapshots()
        return outcome, result

    def _remove_snapshots(self) -> None:
        """Removes what a finished seed does not need."""
        if self.ranks.leads:
            shutil.rmtree(self.folder / SNAPSHOTS, ignore_errors=True)

    def _check_disk(self, model: int, trained: int) -> None:
        """Insists on room for a model of so many bytes, and for snapshots of it."""
        # Of what is trained a snapshot also has two running means, and the best so far.
        keep, models = self.recipe.checkpointing.keep, len(self.recipe.seeds) + 1
        check_disk(self.folder.parent, model + 3 * trained, keep, model, models)

    def _tuned(self, model: LanguageModel) -> tuple[LanguageModel, Measured]:
        """The model with what is chosen last, and how good it is on the dev set."""
        self.predictions = predictions = self.predictions or self._predict(model)
        tuned, measured = self._measured(predictions, intervals=True)
        if tuned == self.data.task:
            return model, measured
        self.callback.on_message(
            f'Seed {self.seed}: the threshold for "no answer" is the best on the dev set, which '
            "flatters what is measured there a little."
        )
        self.predictions = []  # with another threshold other answers are given
        return model.for_task(tuned), measured

    def _measured(
        self, predictions: Sequence[Any], *, intervals: bool = False
    ) -> tuple[Task[Any, Any], Measured]:
        """How good answers about the dev set are, once what is chosen last has been chosen."""
        task, items = self.data.task, self.data.dev
        measured = self.data.measure(task, items, predictions, intervals=intervals)
        tuned = task if "threshold" in self.recipe.task else task.tuned(measured)
        if tuned != task:
            measured = self.data.measure(tuned, items, predictions, intervals=intervals)
        return tuned, measured

    def _predict(self, model: LanguageModel) -> list[Any]:
        task, items = self.data.task, self.data.dev
        return answers(task, model.model, model.tokenizer, items, max_length=model.max_length)

    def _evaluated(self, model: LanguageModel) -> EvalResult:
        predictions = self._predict(model)
        task, measured = self._measured(predictions)
        return EvalResult(
            measured.value,
            measured.higher_is_better,
            {"primary": measured.primary, "values": measured.values},
            task.measured_loss(measured) if self._tells_loss else {},
            predictions,
        )

    @property
    def _tells_loss(self) -> bool:
        """Whether what is measured tells the loss: that of the task, not one of the user's own."""
        return self.data.task.cost_value is not None and self.data.objects.loss is None

    def _loader(self, model: LanguageModel, workers: WorkerPool) -> Loader[MicroBatches]:
        examples = self.distinct or self._examples(
            model,
            self.data.train,
            change=self.data.change or _change(self.recipe.augment, self.seed, self.start),
            mixed=self.data.mixed(self.seed),
        )
        if self.data.task.guide:
            examples.guided = self._guided()
        return self._loader_of(examples, model, workers, batch_size=self.plan.batch_size)

    def _guided(self) -> GuideVectors:
        texts = list(dict.fromkeys(text for item in self.data.train for text in item.texts))
        self.callback.on_message(
            f"Seed {self.seed}: the guide, {self.data.task.guide}, embeds "
            f"{counted(len(texts), 'text')} first."
        )
        vectors = load(self.data.task.guide).embed(texts, truncate=True)
        return GuideVectors({text: number for number, text in enumerate(texts)}, vectors)

    def _held_out(self, model: LanguageModel, workers: WorkerPool) -> MicroBatches:
        """This rank's part of the dev set; nothing where predictions tell the loss as well."""
        # Vectors are measured; what they cost depends on which others stand beside them.
        if len(self.data.dev) < self.ranks.count or self._tells_loss or self.data.task.texts_apart:
            return []
        examples = self._examples(model, self.data.dev)
        size = len(self.data.dev)
        return self._loader_of(examples, model, workers, batch_size=size, workers=0).batch(0)

    def _examples(self, model: LanguageModel, items: Sequence[Any], **options: Any) -> TaskExamples:
        tokenizer, max_length = model.tokenizer, model.max_length
        return TaskExamples(self.data.task, items, tokenizer, max_length=max_length, **options)

    def _loader_of(
        self, examples: TaskExamples, model: LanguageModel, pool: WorkerPool, **options: int
    ) -> Loader[MicroBatches]:
        source, max_tokens = Vocabularies.of(model.tokenizer), self.plan.training.micro_batch_tokens
        batcher = MicroBatcher(
            self.objective,
            self.seed,
            source,
            max_tokens,
            pool.count,
            by_length=self.data.task.loss_over_step,
        )
        ranks = {"rank": self.ranks.rank, "ranks": self.ranks.count}
        return Loader(examples, batcher, seed=self.seed, **ranks, **options)

    def _written(self) -> dict[str, Any]:
        plan = self.plan
        recipe = self.data.objects.written(config.plain(self.recipe))
        data: dict[str, Any] = json.loads(json.dumps(recipe))
        data["seed"] = self.seed
        data["task"] = config.plain(self.data.task)
        data["training"] = {**config.plain(plan.training), "epochs": plan.epochs}
        data["identity"] = {
            "tokenizer": self.start.tokenizer.fingerprint,
            "train": identity(self.data.train),
            "dev": identity(self.data.dev),
            **self.data.objects.identity,
        }
        del data["seeds"]  # more may be asked for later
        return data


def identity(items: Sequence[Any]) -> str:
    """Changes when an item does."""
    digest = sha256()
    for item in items:
        digest.update(repr(item).encode("utf-8", "surrogatepass"))
    return f"{len(items)} items, sha256 {digest.hexdigest()}"


def _change(augment: AugmentSpec | None, seed: int, start: LanguageModel) -> Change | None:
    """How items are changed; a model that fills gaps may be asked for words."""
    if augment is None:
        return None
    fills = "vocabulary" in start.blueprint.heads
    change, rng = (
        augment.build(partial(_guesses, start) if fills else None),
        RandomStream(seed, "augment"),
    )
    return lambda item, epoch, index: change(item, rng, epoch, index)


def _guesses(start: LanguageModel, texts: Sequence[str]) -> list[list[str]]:
    # One at a time: the loader's threads must not start others.
    filled = [start.fill(text, top=_GUESSES) for text in texts]
    return [[guess.word for guess in each.gaps[0]] for each in filled]

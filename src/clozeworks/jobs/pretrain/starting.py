"""The model a run trains: fresh or from a folder, with the heads its objective needs."""

import dataclasses
from pathlib import Path

import torch

from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.initialize import initialize
from clozeworks.core.model import Model
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.errors import SettingError, UnknownName, UnsupportedError, nearest
from clozeworks.families.family import Config, Parts, published_sizes
from clozeworks.jobs.pretrain.recipe import Start
from clozeworks.language_model import LanguageModel, load, new
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.teacher_forcing import DECODER


def starting_model(
    start: Start, objective: Objective, corpus: Corpus, seed: int, *, begun: bool = False
) -> LanguageModel:
    """A model of a published size with fresh weights, or one that was trained before.

    Args:
        start: What the recipe says.
        objective: What the model learns.
        corpus: What it learns from.
        seed: Decides fresh weights.
        begun: Whether the run goes on, so that what is meant was decided before.

    Raises:
        UnknownName: If neither a size nor a folder has this name.
        SettingError: If both have it.
        InputError: If the corpus was built with another tokenizer than the model's.
    """
    sizes = published_sizes()
    if start.fresh:
        # Trap: who has a folder of that name may mean it, and would notice after days of training.
        if not begun and (Path(start.start) / "config.json").exists():
            rule = "a published size and a model folder here have this name"
            advice = f"write './{start.start}' to go on from the folder, or move it away for fresh "
            raise SettingError("model.start", start.start, rule, advice + "weights")
        offered = sizes[start.start].paths
        heads = sorted(objective.required_heads(offered))
        if HEAD in heads and DECODER in offered and DECODER not in heads:
            asks = ", ".join(objective.loss_names)
            rule = f"its vocabulary head is on its decoder, and {asks} needs one on the encoder"
            advice = "choose another objective, such as span_corruption, or a family of encoders"
            raise SettingError("model.start", start.start, rule, advice)
        return new(start.start, corpus.tokenizer, heads=heads, seed=seed, **start.config)
    # A name of the hub may look like a size; one that differs by a letter or two is a slip.
    if not Path(start.start).exists() and nearest(start.start, sizes):
        raise UnknownName("model.start", start.start, sizes)
    if start.config:
        rule = f"it changes a published size, but `model.start` is {start.start!r}"
        raise SettingError("model.config", start.config, rule, "leave it out, or start from a size")
    model = load(start.start, dtype=torch.float32)
    corpus.check_tokenizer(model.tokenizer, start.start)
    return _with_parts(model, objective, seed)


def trained_network(model: LanguageModel, objective: Objective, seed: int) -> Model:
    """The network to train: the model's own with the heads the objective brings.

    Both share their weights, so that what is trained can be saved without those heads.
    """
    network = objective.equip(model.blueprint).build()
    _share(model.model, network, seed)
    return network


def _with_parts(model: LanguageModel, objective: Objective, seed: int) -> LanguageModel:
    """The same model with the parts an objective needs; those it lacked are fresh."""
    family, have = model.family, model.blueprint.parts
    missing = objective.required_heads(family.paths) - have
    if not missing:
        return model
    _check_saveable(model, missing)
    config = Config(model.checkpoint.config, model.name)
    blueprint = family.blueprint(config, have | missing)
    blueprint = dataclasses.replace(
        model.blueprint, pooler=blueprint.pooler, heads={**blueprint.heads, **model.blueprint.heads}
    ).check()
    network = blueprint.build()
    _share(model.model, network, seed)
    checkpoint = dataclasses.replace(model.checkpoint, model=network)
    return LanguageModel(checkpoint, model.name)


def _check_saveable(model: LanguageModel, missing: Parts) -> None:
    """Refuses heads that no published architecture holds together, before they are trained."""
    family, have = model.family, model.blueprint.parts & model.family.paths.keys()
    try:
        family.fitting(have | missing)
    except UnsupportedError as error:
        raise SettingError(
            "model.start",
            model.name,
            f"it has {', '.join(sorted(have))}; the objective needs {', '.join(sorted(missing))} "
            f"too, and no published {family.model_type} architecture holds all of them",
            "start from a size, or from a folder without these heads",
        ) from error


def _share(old: Model, network: Model, seed: int) -> None:
    """Copies weights into a larger network, and lets the old one use that network's.

    What the old one lacks is fresh.
    """
    known, wider = dict(old.named_parameters()), dict(network.named_parameters())
    with torch.no_grad():
        for name, parameter in known.items():
            wider[name].copy_(parameter)
    initialize(network, seed=seed, known=known)
    for name in known:
        owner, _, last = name.rpartition(".")
        setattr(old.get_submodule(owner), last, wider[name])
    old.tie()

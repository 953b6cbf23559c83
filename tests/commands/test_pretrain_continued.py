"""Runs that begin with a model folder, and folders of objectives with heads of their own."""

import json

import pytest
import torch
from safetensors import safe_open

import clozeworks as cw
from clozeworks.data.corpus.corpus import VALIDATION, Corpus
from clozeworks.data.examples.loader import Loader
from clozeworks.errors import SettingError
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import published

SHORT = [
    "training.steps=2", "training.schedule={kind='constant', warmup_steps=0}",
    "data.stages=[{length=24}]", "evaluation.every_steps=0", "checkpointing.every_steps=100",
]  # fmt: skip
SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def folder(small_corpus, tmp_path):
    """Makes a model folder with some heads, its weights far from fresh."""

    def make(*heads):
        tokenizer = Corpus.open(small_corpus).tokenizer
        model = cw.new("bert-tiny", tokenizer, heads=heads, seed=11, **SIZES)
        with torch.no_grad():
            for parameter in model.model.parameters():
                parameter.mul_(3.0)
        return model.save(tmp_path / "start")

    return make


def evaluations(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["evaluation"] for line in lines if "evaluation" in line]


def test_the_first_held_out_loss_is_what_the_folder_costs(folder, recipe, small_corpus, tmp_path):
    start = folder("vocabulary", "next_sentence", "pooler")
    found = pretrain(recipe, *SHORT, f"model={{start='{start}'}}")
    assert found.outcome.finished
    first = evaluations(tmp_path / "run")[0]
    # The same questions by hand: all of the held-out text in one batch, no run around it.
    corpus, objective = Corpus.open(small_corpus), published("bert", 24)
    split = corpus.split(VALIDATION)
    arrangement = objective.chosen_examples().arrange(split, corpus.tokenizer, 3)
    examples = max(1, min(round(256 / arrangement.mean_length), arrangement.size(0)))
    loader = Loader(
        arrangement,
        lambda clean: objective.batch(clean, 3, Vocabularies.of(corpus.tokenizer, split)),
        seed=3,
        examples=examples,
    )
    model = cw.load(start).model.eval()
    with torch.inference_mode():
        costs = objective.loss(model, loader.batch(0).tensors()).terms
    for name, cost in costs.items():
        assert first[name]["loss"] == pytest.approx(float(cost.total) / cost.count, abs=1e-5)
        assert first[name]["accuracy"] == pytest.approx(float(cost.correct) / cost.count)
    fresh = pretrain(recipe, *SHORT, f"run={tmp_path / 'fresh'}")
    assert fresh.outcome.finished
    assert abs(evaluations(tmp_path / "fresh")[0]["loss"] - first["loss"]) > 0.1


def test_a_folder_without_the_next_sentence_head_gets_a_fresh_one(folder, recipe, tmp_path):
    start = folder("vocabulary")
    assert pretrain(recipe, *SHORT, f"model={{start='{start}'}}").outcome.finished
    first = evaluations(tmp_path / "run")[0]
    assert 0.4 < first["next_sentence"]["loss"] < 1.2, "about log 2: it knows nothing"
    found = cw.load(tmp_path / "run" / "model")
    assert {"vocabulary", "next_sentence"} == set(found.blueprint.heads)
    assert found.blueprint.pooler is not None


@pytest.mark.parametrize(("name", "heads"), [("spanbert", {"vocabulary"}), ("simcse", set())])
def test_heads_that_an_objective_brings_are_not_in_the_folder(name, heads, recipe, tmp_path):
    run = tmp_path / "run"
    assert pretrain(recipe, *SHORT, f"objective={name}").outcome.finished
    model = cw.load(run / "model")
    assert set(model.blueprint.heads) == heads
    assert model.embed(["The cat sat."]).shape[-1] == 32
    card = (run / "model" / "README.md").read_text()
    kind = "fill-mask" if heads else "feature-extraction"
    assert f'pipeline_tag: "{kind}"' in card
    # What was brought along is in the snapshot, so that the run could have gone on.
    with safe_open(run / "snapshots" / "step-000000002" / "model.safetensors", "pt") as file:
        inside = set(file.keys())
    ours = {key for key, _ in model.model.named_parameters()}
    assert ours < inside
    if heads:
        assert model.fill("The [MASK] sat.")


def test_a_trained_folder_can_be_gone_on_from_and_keeps_its_tokenizer(recipe, tmp_path, hashes):
    assert pretrain(recipe, *SHORT).outcome.finished
    first = tmp_path / "run" / "model"
    second = tmp_path / "second"
    assert pretrain(recipe, *SHORT, f"model={{start='{first}'}}", f"run={second}").outcome.finished
    last = evaluations(tmp_path / "run")[-1]
    assert evaluations(second)[0] == last, "the same weights and the same questions"
    before, after = hashes(first), hashes(second / "model")
    files = [name for name in before if "token" in name or name == "vocab.txt"]
    assert len(files) >= 3 and all(before[name] == after[name] for name in files)
    assert before["config.json"] == after["config.json"]
    assert before["model.safetensors"] != after["model.safetensors"]


def test_a_folder_has_the_places_it_has(folder, recipe, tmp_path):
    start = folder("vocabulary", "next_sentence", "pooler")
    change = (f"model={{start='{start}'}}", "data.stages=[{length=600}]")
    with pytest.raises(SettingError) as caught:
        pretrain(recipe, *SHORT, *change)
    assert str(caught.value) == (
        "the length of examples is 600; the model takes at most 512; shorten them "
        "(`data.stages`), or start from a size, as a trained model keeps its positions."
    )

"""A run with a generator beside the model: stopped and gone on, cut differently, saved as two."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.engine.snapshots import Snapshots
from clozeworks.errors import SettingError, TokenizerError
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.jobs.pretrain.recipe import Start
from clozeworks.jobs.pretrain.starting import starting_model, trained_network
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.published import published

NO_DROPOUT = [
    "model.config.hidden_dropout_prob=0.0",
    "model.config.attention_probs_dropout_prob=0.0",
]
FOLDERS = ("model", "generator")


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def recipe(tiny_recipe):
    config = {**tiny_recipe["model"]["config"], "embedding_size": 12, "initializer_range": 0.2}
    return {
        **tiny_recipe,
        "model": {"start": "electra-small", "config": config},
        "objective": "electra",
        "checkpointing": {"every_steps": 2, "keep": 9},
    }


def weights(run):
    return {name: load_file(run / name / "model.safetensors") for name in FOLDERS}


def test_both_networks_are_saved(recipe, listener):
    done = pretrain(recipe, callback=listener)
    discriminator, generator = (cw.load(done.folder / name) for name in FOLDERS)
    assert discriminator.checkpoint.config["architectures"] == ["ElectraForPreTraining"]
    assert generator.checkpoint.config["architectures"] == ["ElectraForMaskedLM"]
    assert (discriminator.blueprint.width, generator.blueprint.width) == (16, 4)
    assert len(generator.fill("the [MASK] is here", top=2).gaps[0]) == 2
    tables = [made.model.embeddings.tokens.weight for made in (discriminator, generator)]
    assert torch.equal(*tables)
    assert generator.tokenizer.fingerprint == discriminator.tokenizer.fingerprint
    for name in FOLDERS:
        assert "masked_lm" in (done.folder / name / "README.md").read_text()
    last = [record["evaluation"] for record in done.records if "evaluation" in record][-1]
    assert last["masked_lm"]["loss"] > last["replaced_tokens"]["loss"] > 0
    assert any(note.startswith("replaced_tokens: ") for note in listener.notes)
    other = done.folder / "generator"
    assert done.next_command() == (
        f"The model is in {done.model}, the generator in {other}; the second fills gaps: "
        f"clozeworks fill {other} 'A [MASK] text.'"
    )


def test_stopped_and_gone_on_to_the_bit(recipe, tmp_path):
    done = pretrain(recipe, f"run={tmp_path / 'whole'}")
    run = shutil.copytree(done.folder, tmp_path / "again")
    for name in FOLDERS:
        shutil.rmtree(run / name)
    Snapshots(run / "snapshots", 9).remove_after(2)
    pretrain(recipe, f"run={run}")
    before, after = weights(done.folder), weights(run)
    for name in FOLDERS:
        assert before[name].keys() == after[name].keys()
        assert all(torch.equal(before[name][key], after[name][key]) for key in before[name])


def test_a_generator_that_is_gone_comes_with_the_model(recipe):
    done = pretrain(recipe)
    before = weights(done.folder)
    for name in FOLDERS:
        shutil.rmtree(done.folder / name)
    pretrain(recipe)
    after = weights(done.folder)
    assert all(torch.equal(before[n][key], after[n][key]) for n in FOLDERS for key in before[n])


def test_how_a_step_is_cut_changes_nothing(recipe, tmp_path):
    whole = pretrain(
        recipe, *NO_DROPOUT, f"run={tmp_path / 'whole'}", "training.micro_batch_tokens=100000"
    )
    cut = pretrain(recipe, *NO_DROPOUT, f"run={tmp_path / 'cut'}", "training.micro_batch_tokens=32")
    before, after = weights(whole.folder), weights(cut.folder)
    for name in FOLDERS:
        furthest = max(float((before[name][k] - after[name][k]).abs().max()) for k in before[name])
        assert furthest <= 1e-5


def test_a_family_that_cannot_say_what_its_generator_is(recipe, listener):
    """BERT's token vectors are as wide as its model; those of a shared generator are not."""
    config = dict(recipe["model"]["config"])
    del config["embedding_size"]
    done = pretrain(
        {**recipe, "model": {"start": "bert-tiny", "config": config}}, callback=listener
    )
    assert done.model is not None and not (done.folder / "generator").exists()
    (note,) = [note for note in listener.notes if note.startswith("The generator is not saved: ")]
    assert "blueprint.embeddings.width is 16" in note
    assert done.next_command().endswith(f"try it: clozeworks embed {done.model} 'A text.'")


@pytest.mark.parity
def test_transformers_loads_both(recipe):
    transformers = pytest.importorskip("transformers")
    done = pretrain(recipe)
    for name, peer in zip(FOLDERS, ("ElectraForPreTraining", "ElectraForMaskedLM"), strict=True):
        _, report = getattr(transformers, peer).from_pretrained(
            done.folder / name, output_loading_info=True
        )
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys"))
        assert not report["mismatched_keys"]


def test_what_is_trained_is_what_is_saved(recipe):
    corpus, objective = Corpus.open(recipe["data"]["corpus"]), published("electra", 24)
    start = Start(start="electra-small", config=recipe["model"]["config"])
    model = starting_model(start, objective, corpus, 1)
    network = trained_network(model, objective, 1)
    (generator,) = objective.companions(network).values()
    assert generator.embeddings.tokens.weight is model.model.embeddings.tokens.weight
    assert set(model.blueprint.heads) == {"replaced"}


def test_heads_that_cannot_be_saved_together_are_refused_first(recipe, tmp_path):
    corpus = Corpus.open(recipe["data"]["corpus"])
    config = recipe["model"]["config"]
    cw.new("electra-small", corpus.tokenizer, **config).save(tmp_path / "filling")
    start = Start(start=str(tmp_path / "filling"))
    with pytest.raises(SettingError) as caught:
        starting_model(start, published("electra", 24), corpus, 1)
    assert str(caught.value) == (
        f"model.start is '{tmp_path / 'filling'}'; it has vocabulary; the objective needs replaced "
        "too, and no published electra architecture holds all of them; start from a size, or from "
        "a folder without these heads."
    )


def test_a_tokenizer_without_a_mask_is_refused_before_the_first_step(recipe, monkeypatch, listener):
    known = Vocabularies.of
    monkeypatch.setattr(Vocabularies, "of", lambda *given: replace(known(*given), mask_id=None))
    with pytest.raises(TokenizerError, match="the generator of replaced_tokens fills masks"):
        pretrain(recipe, callback=listener)

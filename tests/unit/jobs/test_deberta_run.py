"""Runs of DeBERTa: through its mask decoder, and with tables shared without pulling."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.engine.snapshots import Snapshots
from clozeworks.errors import SettingError
from clozeworks.jobs.pretrain.job import pretrain

FOLDERS = ("model", "generator")
CONFIG = {
    "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32,
    "position_buckets": 8, "max_relative_positions": 20, "initializer_range": 0.2,
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def recipe(tiny_recipe):
    return {
        **tiny_recipe,
        "model": {"start": "deberta-v3-base", "config": CONFIG},
        "objective": "deberta-v3",
        "checkpointing": {"every_steps": 2, "keep": 9},
    }


def weights(run):
    return {name: load_file(run / name / "model.safetensors") for name in FOLDERS}


def test_both_networks_are_saved_with_tables_of_their_own(recipe, tmp_path):
    done = pretrain(recipe)
    discriminator, generator = (cw.load(done.folder / name) for name in FOLDERS)
    assert set(discriminator.blueprint.heads) == {"replaced"}
    assert set(generator.blueprint.heads) == {"vocabulary", "mask_decoder"}
    assert len(generator.blueprint.encoder.layers) == 2
    assert len(generator.fill("the [MASK] is here", top=2).gaps[0]) == 2
    snapshot, _ = Snapshots(done.folder / "snapshots", 9).read_latest()
    difference = snapshot.tensors["model"]["heads.table_differences.tokens.weight"]
    assert difference.any()
    ours, theirs = (each.model.embeddings.tokens.weight for each in (discriminator, generator))
    assert torch.equal(ours, theirs + difference)

    run = shutil.copytree(done.folder, tmp_path / "again")
    for name in FOLDERS:
        shutil.rmtree(run / name)
    Snapshots(run / "snapshots", 9).remove_after(2)
    pretrain(recipe, f"run={run}")
    before, after = weights(done.folder), weights(run)
    for name in FOLDERS:
        assert before[name].keys() == after[name].keys()
        assert all(torch.equal(before[name][key], after[name][key]) for key in before[name])


def test_the_mask_decoder_is_saved_with_its_model(recipe, tmp_path):
    config = {**CONFIG, "max_position_embeddings": 30}
    model = {"start": "deberta-v3-base", "config": config}
    done = pretrain({**recipe, "objective": "deberta", "model": model})
    model = cw.load(done.model)
    assert set(model.blueprint.heads) == {"vocabulary", "mask_decoder"}
    names = load_file(done.model / "model.safetensors").keys()
    assert "deberta.embeddings.position_embeddings.weight" in names
    assert "lm_predictions.lm_head.dense.weight" in names
    assert len(model.fill("the [MASK] is here", top=2).gaps[0]) == 2
    # A text of more tokens than the decoder has places is read in windows.
    long = model.fill(("the town is here " * 20) + "[MASK]", top=2)
    assert len(long.gaps[0]) == 2


SENTENCES = {"kind": "full_sentences", "length": 16}
DECODED = {"kind": "decoded_lm", "examples": SENTENCES}
SMALL_BERT = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"objective": DECODED, "model": {"config": {**CONFIG, "max_position_embeddings": 20}}},
            "the mask decoder takes at most 20; shorten them (`data.stages`), or "
            "raise model.config.max_position_embeddings.",
        ),
        (
            {
                "objective": {**DECODED, "positions": 20},
                "model": {"start": "bert-tiny", "config": SMALL_BERT},
            },
            "the mask decoder takes at most 20; shorten them (`data.stages`), or raise "
            "objective.positions.",
        ),
        (
            {
                "objective": {
                    "kind": "replaced_tokens",
                    "examples": SENTENCES,
                    "generator": {"positions": 20},
                }
            },
            "the generator's mask decoder takes at most 20; shorten them (`data.stages`), or "
            "raise objective.generator.positions.",
        ),
    ],
)
def test_examples_longer_than_a_decoder_s_places_are_refused_at_once(
    changes, sentence, recipe, tmp_path
):
    model = {**recipe["model"], **changes.get("model", {})}
    with pytest.raises(SettingError) as caught:
        pretrain({**recipe, **changes, "model": model})
    assert str(caught.value) == f"the length of examples is 24; {sentence}"
    assert not (tmp_path / "run").exists()


def test_a_decoder_that_nobody_asks_limits_nothing(recipe, tmp_path):
    model = {"config": {**CONFIG, "max_position_embeddings": 20}, "start": "deberta-v3-base"}
    stages = {"data": {**recipe["data"], "stages": [{"length": 16}]}}
    decoded = pretrain({**recipe, **stages, "objective": DECODED, "model": model})
    masked = {"kind": "masked_lm", "examples": {**SENTENCES, "length": 24}}
    again = {"model": {"start": str(decoded.model)}, "objective": masked}
    data = {"corpus": recipe["data"]["corpus"]}
    done = pretrain({**recipe, **again, "data": data, "run": str(tmp_path / "more")})
    assert done.outcome.finished


@pytest.mark.parity
@pytest.mark.parametrize(
    ("objective", "peers"),
    [
        ("deberta", {"model": "DebertaV2ForMaskedLM"}),
        ("deberta-v3", {"model": "DebertaV2Model", "generator": "DebertaV2ForMaskedLM"}),
    ],
)
def test_transformers_loads_what_was_trained(objective, peers, recipe):
    transformers = pytest.importorskip("transformers")
    done = pretrain({**recipe, "objective": objective})
    for name, peer in peers.items():
        _, report = getattr(transformers, peer).from_pretrained(
            done.folder / name, output_loading_info=True
        )
        assert not report["missing_keys"] and not report["mismatched_keys"]
        assert not [key for key in report["unexpected_keys"] if "mask_predictions" not in key]

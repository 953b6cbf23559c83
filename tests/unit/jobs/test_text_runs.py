"""Runs of models that write: T5, ByT5 and UL2, GPT-2 and LLaMA, from raw text to a folder."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.data.corpus.build import BuildSettings, build_corpus
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.engine.snapshots import Snapshots
from clozeworks.errors import SettingError
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.text.tokenizer.styles import GPT2_STYLE, LLAMA_STYLE, T5_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

SMALL_T5 = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 24}
SMALL_T5["num_decoder_layers"] = 1
RUNS = {
    "t5": ("t5-v1_1-small", SMALL_T5, "t5", "span_corruption"),
    "byt5": ("byt5-small", SMALL_T5, "bytes", "span_corruption"),
    "prefix-lm": ("t5-small", SMALL_T5, "t5", "prefix_lm"),
    "gpt2": ("gpt2", {"n_embd": 16, "n_layer": 1, "n_head": 2}, "gpt2", "causal_lm"),
    "llama": (
        "llama-3-8b",
        {
            "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 1, "intermediate_size": 24,
        },
        "llama",
        "causal_lm",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpora(made_up, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    texts = [made_up(number) for number in range(200)]
    (folder / "text.txt").write_text("\n\n".join(texts), encoding="utf-8")
    styles = {"t5": T5_STYLE, "gpt2": GPT2_STYLE, "llama": LLAMA_STYLE}
    tokenizers = {
        name: train_from_iterator(texts, kind=style.kind, size=400, style=style)
        for name, style in styles.items()
    }
    for name, tokenizer in {**tokenizers, "bytes": Tokenizer.of_bytes()}.items():
        settings = BuildSettings(validation=0.2, sentences="whole")
        build_corpus([folder / "text.txt"], folder / name, tokenizer, settings)
    return folder


@pytest.fixture
def recipe(corpora, tmp_path):
    def make(name, **changes):
        size, config, corpus, _ = RUNS[name]
        return {
            "run": str(tmp_path / "run"),
            "model": {"start": size, "config": config},
            "data": {"corpus": str(corpora / corpus), "stages": [{"length": 32}]},
            "objective": name,
            "training": {
                "steps": 6,
                "batch_tokens": 256,
                "micro_batch_tokens": 128,
                "learning_rate": 0.01,
                "optimizer": {"kind": "adafactor"},
                "schedule": {"kind": "inverse_square_root", "warmup_steps": 0, "hold": 3},
            },
            "logging": {"every_steps": 1},
            "evaluation": {"every_steps": 3, "tokens": 512},
            "checkpointing": {"every_steps": 2, "keep": 9},
            **changes,
        }

    return make


@pytest.mark.parametrize("name", RUNS)
def test_from_text_to_a_folder_and_on_from_the_middle(name, recipe, tmp_path, listener):
    settings = recipe(name)
    done = pretrain(settings, callback=listener)
    part = RUNS[name][3]
    assert done.outcome.finished and done.report.exists()
    first, last = (done.records[0]["evaluation"][part], done.records[-1]["evaluation"][part])
    assert last["loss"] < first["loss"]
    assert done.baseline.part == part
    assert 0 < done.baseline.loss < done.baseline.uniform
    assert any(note.startswith("Guessing every token alike") for note in listener.notes)
    model = cw.load(done.model)
    assert model.blueprint.can_generate and "vocabulary" in model.blueprint.heads
    assert (model.blueprint.decoder is None) == (part == "causal_lm")
    use = "fill" if part in ("span_corruption", "denoisers") else "generate"
    assert f"clozeworks {use} " in done.next_command()
    card = (done.model / "README.md").read_text()
    written = "text-generation" if part == "causal_lm" else "text2text-generation"
    assert f'pipeline_tag: "{written}"' in card and f".{use}(" in card

    said = json.loads((done.model / "clozeworks.json").read_text())
    assert said.get("sentinels") == {"t5": "named", "byt5": "bytes"}.get(name)

    run = shutil.copytree(done.folder, tmp_path / "again")
    shutil.rmtree(run / "model")
    Snapshots(run / "snapshots", 9).remove_after(2)
    pretrain(settings, f"run={run}")
    before, after = (
        load_file(folder / "model" / "model.safetensors") for folder in (done.folder, run)
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_scheduled_sampling_goes_on_where_it_was(recipe, tmp_path):
    objective = {
        "kind": "scheduled_sampling",
        "objective": {
            "kind": "causal_lm", "examples": {"kind": "document_pieces", "length": 32},
        },
        "teacher_forcing": {"kind": "linear_teacher_forcing", "fall": 0.2},
        "choose": "drawn",
    }  # fmt: skip
    done = pretrain(recipe("gpt2", objective=objective))
    plain = pretrain(recipe("gpt2"), f"run={tmp_path / 'plain'}")
    losses = [
        [record["causal_lm"]["loss"] for record in run.records if "causal_lm" in record]
        for run in (done, plain)
    ]
    assert losses[0][0] == losses[1][0], "at step 0 all is told"
    assert losses[0][1:] != losses[1][1:]
    run = shutil.copytree(done.folder, tmp_path / "again")
    shutil.rmtree(run / "model")
    Snapshots(run / "snapshots", 9).remove_after(2)
    pretrain(recipe("gpt2", objective=objective), f"run={run}")
    before, after = (
        load_file(folder / "model" / "model.safetensors") for folder in (done.folder, run)
    )
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_vocabulary_for_t5_has_its_sentinels_last(corpora):
    tokenizer = Corpus.open(corpora / "t5").tokenizer
    assert (tokenizer.pad_id, tokenizer.last_id, tokenizer.unknown_id) == (0, 1, 2)
    ids = [tokenizer.id_of(f"<extra_id_{number}>") for number in range(100)]
    assert ids == list(range(tokenizer.size - 1, tokenizer.size - 101, -1))
    encoded = tokenizer.encode(["the cat <extra_id_0> the mat"])[0].ids
    assert encoded[-1] == 1 and ids[0] in encoded


def test_bytes_are_bytes(corpora):
    corpus = Corpus.open(corpora / "bytes")
    text = "A “text”\n\twith 中文, and  two spaces."
    ids = corpus.tokenizer.encode([text])[0].ids
    assert ids == [byte + 3 for byte in text.encode()] + [1]
    assert corpus.tokenizer.decode(ids) == text and corpus.tokenizer.size == 384


@pytest.mark.parametrize("name", ["gpt2", "llama", "bytes"])
def test_whole_documents_are_kept_to_the_letter(name, corpora):
    corpus = Corpus.open(corpora / name)
    split = corpus.split("train")
    documents = (corpora / "text.txt").read_text().split("\n\n")
    bounds = split.sentence_offsets
    tokens, _ = split.gather(bounds[:-1], bounds[1:])
    texts = [corpus.tokenizer.decode(ids.tolist()) for ids in np.split(tokens, bounds[1:-1])]
    assert len(texts) == split.documents and set(texts) <= set(documents)


def test_ul2_says_which_token_is_missing(recipe, corpora):
    settings = recipe("t5", objective="ul2")
    with pytest.raises(Exception, match=r"the tokenizer has no special token \[NLU\]"):
        pretrain(settings)
    plain = {"kind": "denoisers", "modes": False, "examples": {"kind": "blocks", "length": 32}}
    settings = recipe("t5", objective=plain)
    done = pretrain(settings)
    assert done.baseline.part == "denoisers"


def test_few_sentinels_are_told(recipe, listener):
    hide = {"kind": "alternating_spans", "fraction": 0.45, "mean": 1.0}
    objective = {
        "kind": "span_corruption", "hide": hide, "examples": {"kind": "blocks", "length": 260},
    }  # fmt: skip
    settings = recipe("t5", objective=objective)
    settings["data"]["stages"] = [{"length": 260}]
    settings["training"]["batch_tokens"] = 1040
    pretrain(settings, "training.steps=1", callback=listener)
    told = [note for note in listener.notes if "sentinels" in note]
    assert len(told) == 1 and told[0].endswith(
        "what is left over is one with the last span; shorten the examples, or hide longer spans."
    )


def test_the_wrong_model_for_an_objective(recipe):
    with pytest.raises(SettingError, match="the model has a decoder, which answers the text"):
        pretrain(recipe("t5", objective="gpt2"))
    with pytest.raises(SettingError, match=r"^objective.kind is 'span_corruption'; it shows"):
        pretrain(recipe("gpt2", objective="t5"))


def test_the_saved_config_says_how_answers_begin(recipe):
    done = pretrain(recipe("t5"), "training.steps=1")
    config = json.loads((done.model / "config.json").read_text())
    assert config["is_encoder_decoder"]
    assert (config["decoder_start_token_id"], config["eos_token_id"]) == (0, 1)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["t5", "gpt2", "llama"])
def test_transformers_reads_what_was_trained(name, recipe):
    transformers = pytest.importorskip("transformers")
    done = pretrain(recipe(name))
    ours = cw.load(done.model)
    kind = "AutoModelForSeq2SeqLM" if name == "t5" else "AutoModelForCausalLM"
    theirs = getattr(transformers, kind).from_pretrained(done.model).eval()
    ids = torch.tensor(ours.tokenizer.encode(["the cat sat on the mat"])[0].ids)
    if name == "t5":
        layout = Layout([len(ids)])
        with torch.no_grad():
            from clozeworks.core.context import AttentionSource

            encoded = AttentionSource(ours.model(ids, layout), layout)
            x = ours.model.decode(ids, layout, encoded)
            mine = ours.model.heads["vocabulary"](x)
            peer = theirs(input_ids=ids[None], decoder_input_ids=ids[None]).logits[0]
    else:
        with torch.no_grad():
            mine = ours.model.heads["vocabulary"](ours.model(ids, Layout([len(ids)])))
            peer = theirs(input_ids=ids[None]).logits[0]
    assert (mine - peer).abs().max() < 1e-4

"""Folders both ways: what they save we load and save again, what we save they load."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.core.layout import Layout
from clozeworks.families.family import families

pytestmark = pytest.mark.parity

ARCHITECTURES = [(name, family) for family in families().values() for name in family.architectures]
NAMES = [name for name, _ in ARCHITECTURES]


def tensors(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found.update(load_file(path))
    return found


@pytest.mark.parametrize("architecture", NAMES)
def test_load_and_save_keep_every_byte(architecture, peer, tmp_path):
    peer(architecture).save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert checkpoint.report.missing == []
    assert checkpoint.report.unexpected == []
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    before, after = tensors(tmp_path / "theirs"), tensors(tmp_path / "ours")
    if architecture == "OpenAIGPTDoubleHeadsModel":  # the table, under the name of its copy
        before["transformer.tokens_embed.weight"] = before.pop("lm_head.weight")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.numpy().tobytes() == after[name].numpy().tobytes(), name


@pytest.mark.parametrize("architecture", NAMES)
def test_they_load_what_we_save(architecture, peer, batch, tmp_path):
    original = peer(architecture)
    original.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    again, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    data = batch([5, 9])
    if "T5" in architecture:
        data["padded_ids"][:, 0] = 1  # `</s>`, where classes are read
    inputs = {"input_ids": data["padded_ids"], "attention_mask": data["mask"]}
    if getattr(original, "decoder", None) is not None:
        inputs["decoder_input_ids"] = data["padded_ids"][:, :3]
    if "MultipleChoice" in architecture or "DoubleHeads" in architecture:
        inputs = {name: tensor[None] for name, tensor in inputs.items()}
    if architecture == "OpenAIGPTDoubleHeadsModel":
        del inputs["attention_mask"]  # it cannot take one of this shape
    with torch.no_grad():
        left, right = again.eval()(**inputs)[0], original(**inputs)[0]
    weights = zip(again.parameters(), original.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
    # Trap: a product that gives one number for each row (ELECTRA's) differs in its last digit when
    # weights begin elsewhere in memory; so does the peer's from that of its own folder.
    torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("architecture", NAMES)
def test_a_fresh_model_of_ours_loads_there(architecture, tmp_path, peer):
    """From a blueprint, without any folder of theirs to begin with."""
    family = next(family for name, family in ARCHITECTURES if name == architecture)
    peer(architecture).save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    checkpoint.config = {}
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    parts = family.architectures[architecture].parts
    alike = (name for name, shape in family.architectures.items() if shape.parts == parts)
    assert config["architectures"] == [next(alike)], "the usual class of these parts"
    assert config["model_type"] == family.model_type
    _, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert not report["mismatched_keys"]


def test_shards_both_ways(peer, batch, tmp_path):
    original = peer("BertForMaskedLM")
    original.save_pretrained(tmp_path / "theirs", max_shard_size="20KB")
    assert len(list((tmp_path / "theirs").glob("model-*.safetensors"))) > 2
    checkpoint = folders.load(tmp_path / "theirs")
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=20_000)
    assert len(list((tmp_path / "ours").glob("model-*.safetensors"))) > 2
    before, after = tensors(tmp_path / "theirs"), tensors(tmp_path / "ours")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    _, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]


def test_untied_decoder(peer, batch, tmp_path):
    original = peer("BertForMaskedLM", tie_word_embeddings=False)
    original.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.model.tied()
    data = batch([5, 9], types=False)
    layout = Layout([5, 9])
    with torch.no_grad():
        expected = original(input_ids=data["padded_ids"], attention_mask=data["mask"]).logits
        hidden = checkpoint.model(data["ids"], layout)
        scores = checkpoint.model.head("vocabulary").logits(hidden, layout)
    torch.testing.assert_close(scores, expected[data["mask"].bool()], atol=1e-5, rtol=1e-5)
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    again, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    decoder, expected = again.cls.predictions.decoder, original.cls.predictions.decoder
    assert torch.equal(decoder.weight, expected.weight)
    assert torch.equal(decoder.bias, expected.bias)


def test_old_names_without_prefix_buffers_and_second_copies(peer, tmp_path):
    """A checkpoint as the first converters wrote it."""
    original = peer("BertForPreTraining")
    original.save_pretrained(tmp_path / "new")
    weights = tensors(tmp_path / "new")
    table = weights["bert.embeddings.word_embeddings.weight"]
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in weights.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    old["cls.predictions.decoder.weight"] = table.clone()
    old["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
    (tmp_path / "old").mkdir()
    save_file(old, tmp_path / "old" / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    del config["architectures"]
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    checkpoint = folders.load(tmp_path / "old")
    report = checkpoint.report
    assert report.dropped == ["bert.embeddings.position_ids"]
    assert sorted(report.duplicates) == [
        "cls.predictions.decoder.bias",
        "cls.predictions.decoder.weight",
    ]
    assert report.missing == [] and report.unexpected == []
    folders.save(checkpoint, tmp_path / "again", overwrite=False, shard_bytes=10**9)
    after = tensors(tmp_path / "again")
    assert after.keys() == weights.keys()
    assert all(torch.equal(weights[name], after[name]) for name in weights)


def test_saved_tokenizer_and_model_load_as_a_whole(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the river is flowing\nthe town is near the river\n" * 20)
    tokenizer = cw.train_tokenizer([text], kind="wordpiece", size=60)
    model = cw.new(
        "bert-tiny", tokenizer, num_hidden_layers=1, hidden_size=32, intermediate_size=64
    )
    model.save(tmp_path / "model")
    theirs = transformers.pipeline("fill-mask", str(tmp_path / "model"))
    # They rank special tokens, too, which are never the missing word.
    ranked = theirs("the [MASK] is flowing", top_k=model.tokenizer.size)
    assert len(ranked) == model.tokenizer.size
    known = [entry for entry in ranked if entry["token"] not in model.tokenizer.special_ids]
    expected = known[:3]
    filled = model.fill("the [MASK] is flowing", top=3)
    assert [guess.word for guess in filled.gaps[0]] == [entry["token_str"] for entry in expected]
    for guess, entry in zip(filled.gaps[0], expected, strict=True):
        assert guess.score == pytest.approx(entry["score"], abs=1e-6)

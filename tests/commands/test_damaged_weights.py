"""Weights that are missing, damaged, of another shape, or in a format that is not read."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def set_weights(folder, change):
    weights = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
    (folder / WEIGHTS).unlink()
    save_file(change(weights), folder / WEIGHTS)
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "header too small"),
        (b"no weights at all " * 100, "header too large"),
        (struct.pack("<Q", 2**62) + b"{}", "header too large"),
        (struct.pack("<Q", 90_000_000) + b"{}", "invalid header length"),
    ],
)
def test_damaged_weights(refused, bert_model, content, reason):
    path = bert_model / WEIGHTS
    path.write_bytes(content)
    refused(
        f"{path} ({len(content):,} bytes) is damaged or was cut short (Error while deserializing "
        f"header: {reason}); copy or download it again.",
        *("show", bert_model),
    )


def test_a_weight_that_claims_a_gigantic_size(refused, bert_model):
    claim = {"dtype": "F32", "shape": [2**30, 2**20], "data_offsets": [0, 2**52]}
    header = json.dumps({"bert.embeddings.word_embeddings.weight": claim}).encode()
    content = struct.pack("<Q", len(header)) + header
    test_damaged_weights(
        refused, bert_model, content, "incomplete metadata, file not fully covered"
    )


def test_weights_cut_short(refused, bert_model):
    content = (bert_model / WEIGHTS).read_bytes()
    reason = "incomplete metadata, file not fully covered"
    test_damaged_weights(refused, bert_model, content[:-100], reason)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda weights: {
                **weights, "bert.embeddings.LayerNorm.bias": torch.zeros(7),
            },
            "41 weights loaded; 1 of the wrong shape: bert.embeddings.LayerNorm.bias is 7, needed "
            "32",
        ),
        (
            lambda weights: {name: torch.zeros(3, 2) for name in weights},
            "0 weights loaded; 42 of the wrong shape: bert.embeddings.word_embeddings.weight is 3 "
            "x 2, needed 115 x 32; bert.embeddings.token_type_embeddings.weight is 3 x 2, needed 2 "
            "x 32; bert.embeddings.position_embeddings.weight is 3 x 2, needed 512 x 32 and 39 "
            "more",
        ),
        (
            lambda weights: {
                name: tensor for name, tensor in weights.items() if "attention.self" not in name
            },
            "30 weights loaded; 12 missing: bert.encoder.layer.*.attention.self.query.weight (2), "
            "bert.encoder.layer.*.attention.self.query.bias (2), "
            "bert.encoder.layer.*.attention.self.key.weight (2), "
            "bert.encoder.layer.*.attention.self.key.bias (2), "
            "bert.encoder.layer.*.attention.self.value.weight (2), "
            "bert.encoder.layer.*.attention.self.value.bias (2)",
        ),
        (
            lambda weights: {
                name: tensor for name, tensor in weights.items() if ".layer.1." not in name
            }
            | {"spare.0.weight": torch.zeros(1), "spare.1.weight": torch.zeros(1)},
            "26 weights loaded; 16 missing: bert.encoder.layer.1.attention.self.query.weight, "
            "bert.encoder.layer.1.attention.self.query.bias, "
            "bert.encoder.layer.1.attention.self.key.weight, "
            "bert.encoder.layer.1.attention.self.key.bias, "
            "bert.encoder.layer.1.attention.self.value.weight, "
            "bert.encoder.layer.1.attention.self.value.bias and 10 more kinds; 2 unexpected, left "
            "out: spare.*.weight (2)",
        ),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit(refused, bert_model, change, sentence):
    set_weights(bert_model, change)
    refused(
        f"{bert_model} does not fit its config.json: {sentence}; take both from the same model.",
        *("show", bert_model),
    )


def test_weights_that_are_no_numbers_to_compute_with(refused, bert_model):
    set_weights(bert_model, lambda w: {name: tensor.to(torch.int8) for name, tensor in w.items()})
    refused(
        f"{bert_model}: bert.embeddings.word_embeddings.weight is stored as I8; weights must be "
        "one of F64, F32, F16, BF16; use the checkpoint it was made from.",
        *("embed", bert_model, "cat"),
    )


def test_weights_of_several_precisions_are_raised_to_the_widest(command, bert_model):
    set_weights(
        bert_model,
        lambda weights: {
            name: tensor.bfloat16() if "query" in name else tensor
            for name, tensor in weights.items()
        },
    )
    assert command("embed", bert_model, "cat").code == 0
    shown = command("show", bert_model).out
    assert "\nstored in several precisions, all raised to float32\n" in shown


def test_what_is_left_out_is_shown(command, bert_model):
    extra = {f"spare.{layer}.weight": torch.zeros(1) for layer in range(3)}
    extra["bert.embeddings.position_ids"] = torch.arange(512)
    set_weights(bert_model, lambda weights: {**weights, **extra})
    shown = command("show", bert_model).out
    assert "\n42 weights loaded\n" in shown
    assert "\n3 unexpected, left out: spare.*.weight (3)\n" in shown
    assert "\n1 without information: bert.embeddings.position_ids\n" in shown


def test_pickles_are_not_opened_and_the_way_out_works(refused, command, bert_model):
    weights = load_file(bert_model / WEIGHTS)
    path = bert_model / "pytorch_model.bin"
    torch.save(weights, path)
    (bert_model / WEIGHTS).unlink()
    converted = f"{bert_model}-safetensors"
    refused(
        f"{bert_model} holds its weights as pytorch_model.bin, a format that can run code when it "
        "is opened; Clozeworks reads only safetensors. Convert it once: "
        f"clozeworks convert {bert_model} --out {converted}",
        *("fill", bert_model, "a [MASK]"),
    )
    done = command("convert", bert_model, "--out", converted)
    assert done.code == 0 and done.out.startswith(f"{converted}: {len(weights)} weights, ")
    assert command("fill", converted, "a [MASK]").code == 0


def test_other_formats_of_weights(refused, bert_model):
    (bert_model / WEIGHTS).rename(bert_model / "tf_model.h5")
    refused(
        f"{bert_model} holds its weights as tf_model.h5, a format that can run code when it is "
        "opened; Clozeworks reads only safetensors. Save the model as safetensors with the library "
        "that wrote it.",
        *("show", bert_model),
    )


@pytest.mark.parametrize("make", [None, "mkdir"])
def test_no_weights(refused, bert_model, make):
    (bert_model / WEIGHTS).unlink()
    if make:
        (bert_model / WEIGHTS).mkdir()
    refused(
        f"{bert_model} has no weights; it must hold model.safetensors, or shards with "
        "model.safetensors.index.json; copy or download them.",
        *("show", bert_model),
    )


@pytest.mark.parametrize("name", ["../evil.safetensors", "/etc/passwd", "..", "", "config.json"])
def test_an_index_that_points_elsewhere(refused, bert_model, name):
    (bert_model / WEIGHTS).unlink()
    (bert_model / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    refused(
        f"{bert_model / INDEX} names the file {name!r}; it must be a .safetensors file in the same "
        "folder; restore the index.",
        *("show", bert_model),
    )


def test_an_index_without_its_files(refused, bert_model):
    (bert_model / WEIGHTS).unlink()
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (bert_model / INDEX).write_text(json.dumps({"weight_map": places}))
    refused(
        f"{bert_model} lacks model-00001-of-00002.safetensors, which its index names; copy or "
        "download it.",
        *("show", bert_model),
    )
    (bert_model / INDEX).write_text('{"weight_map": ["a"]}')
    refused(
        f"{bert_model / INDEX} has no usable weight_map; it must map each weight to a file name; "
        "restore the index.",
        *("show", bert_model),
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(refused, bert_model, tmp_path, value):
    def damage(weights):
        for name, tensor in weights.items():
            if "layer.1.output" in name:
                tensor.flatten()[3] = value
        return weights

    set_weights(bert_model, damage)
    sentence = (
        "is not finite; the model's weights are damaged: there is NaN or infinity in "
        "encoder.layers.1.feed_forward.part.down.weight, "
        "encoder.layers.1.feed_forward.part.down.bias, "
        "encoder.layers.1.feed_forward.norm.weight and 1 more; restore the model folder."
    )
    refused(f"a logit of the text {sentence}", "fill", bert_model, "the [MASK] and the [MASK]")
    refused(f"the vector of the text {sentence}", "embed", bert_model, "cat")


def test_a_damaged_word_is_found_in_the_text_that_has_it(refused, bert_model, tmp_path):
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    word = Tokenizer.load(bert_model).id_of("dog")
    table = "bert.embeddings.word_embeddings.weight"

    def damage(weights):
        weights[table][word, 0] = float("nan")
        return weights

    set_weights(bert_model, damage)
    texts = tmp_path / "texts.txt"
    texts.write_text("the cat\nthe cat and the dog\nthe mat\n")
    refused(
        f"the vector of {texts}, line 2 is not finite; the model's weights are damaged: there is "
        "NaN or infinity in embeddings.tokens.weight; restore the model folder.",
        *("embed", bert_model, texts, "--out", tmp_path / "vectors.npy"),
    )


def test_numbers_that_grow_too_large(refused, bert_model):
    set_weights(
        bert_model,
        lambda weights: {name: tensor.half() * 30_000 for name, tensor in weights.items()},
    )
    refused(
        "the vector of the text is not finite; the model's weights are finite, but an activation "
        "overflowed float16; load the model with a wider dtype.",
        *("embed", bert_model, "the cat"),
    )

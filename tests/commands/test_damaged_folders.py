"""Model folders that are incomplete, damaged or contradict themselves."""

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

WHOLE = "it must be a whole number from 1 to 2,147,483,647; correct it."


def set_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def set_weights(folder, change):
    weights = {name: tensor.clone() for name, tensor in load_file(folder / WEIGHTS).items()}
    (folder / WEIGHTS).unlink()
    save_file(change(weights), folder / WEIGHTS)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model_type": "bertt"},
            "model_type is 'bertt'; known: bert, distilbert, roberta. Did you mean 'bert'?",
        ),
        ({"model_type": None}, "model_type is None; it must name the family, for example bert."),
        (
            {"num_attention_heads": 3},
            "hidden_size is 32 and num_attention_heads is 3; the first must be divisible by the "
            "second; change one of them.",
        ),
        ({"hidden_size": -32}, "hidden_size is -32; " + WHOLE),
        ({"hidden_size": "32"}, "hidden_size is '32'; " + WHOLE),
        (
            {"num_hidden_layers": 10**9},
            "num_hidden_layers is 1000000000; it must be at most 10,000; correct it.",
        ),
        (
            {"layer_norm_eps": -1.0},
            "layer_norm_eps is -1.0; it must be a number of at least 0; correct it.",
        ),
        (
            {"hidden_act": ["gelu"]},
            "hidden_act is \"['gelu']\"; known: gelu, gelu_new, "
            "gelu_pytorch_tanh, relu, silu, swish, tanh. Did you mean 'gelu'?",
        ),
        ({"vocab_size": 1.5}, "vocab_size is 1.5; " + WHOLE),
        (
            {"num_hidden_layers": 0},
            "num_hidden_layers is 0; " + WHOLE,
        ),
        (
            {"hidden_dropout_prob": 1.5},
            "hidden_dropout_prob is 1.5; it must be at least 0 and below 1; correct it.",
        ),
        (
            {"hidden_act": "gelo"},
            "hidden_act is 'gelo'; known: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish, "
            "tanh. Did you mean 'gelu'?",
        ),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'; relative positions are another model; "
            "Clozeworks computes only 'absolute'.",
        ),
        (
            {"hidden_size": 2**31 - 4},
            "the sizes are too large for any machine (Storage size calculation overflowed with "
            "sizes=[2147483644, 2147483644]); restore the file.",
        ),
    ],
)
def test_config_values(refused, bert_model, changes, sentence):
    set_config(bert_model, **changes)
    refused(f"{bert_model / 'config.json'}: {sentence}", "show", bert_model)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"{'a': 1}",
            ", line 1: Expecting property name enclosed in double quotes; it must be JSON; restore "
            "the file.",
        ),
        (b"", ", line 1: Expecting value; it must be JSON; restore the file."),
        (b"[]", " is JSON, but no object; it must have the form {…}; restore the file."),
        (b'"bert"', " is JSON, but no object; it must have the form {…}; restore the file."),
        (
            '{"name": "café"}'.encode("latin-1"),
            " is not UTF-8 text (invalid continuation byte); restore the file.",
        ),
        (
            b"[" * 200_000,
            ": a number is too long or the nesting too deep to read; restore the file.",
        ),
        (
            b'{"hidden_size": ' + b"9" * 5000 + b"}",
            ": a number is too long or the nesting too deep to read; restore the file.",
        ),
    ],
)
def test_config_files(refused, bert_model, content, sentence):
    path = bert_model / "config.json"
    path.write_bytes(content)
    refused(f"{path}{sentence}", "fill", bert_model, "a [MASK]")


def test_a_byte_order_mark_does_no_harm(command, bert_model):
    path = bert_model / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert command("fill", bert_model, "a [MASK]").code == 0


def test_no_config(refused, bert_model):
    (bert_model / "config.json").unlink()
    refused(
        f"{bert_model} has no config.json, so it is no model folder; name a folder that "
        "Clozeworks or transformers saved.",
        *("show", bert_model),
    )
    refused(
        f"{bert_model / 'vocab.txt'} is no folder; give a model folder with config.json, or a hub "
        "name.",
        *("show", bert_model / "vocab.txt"),
    )


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
    script = (
        "import torch; from safetensors.torch import save_file; "
        f"weights = torch.load('{path}', weights_only=True); "
        "save_file({name: weights[name].clone().contiguous() for name in weights}, "
        f"'{bert_model / WEIGHTS}', metadata={{'format': 'pt'}})"
    )
    refused(
        f"{bert_model} holds its weights as pytorch_model.bin, a format that can run code when it "
        "is opened; Clozeworks reads only safetensors. Convert it once: "
        f'python -c "{script}"',
        *("fill", bert_model, "a [MASK]"),
    )
    exec(script, {})
    assert command("fill", bert_model, "a [MASK]").code == 0


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


def test_a_tokenizer_larger_than_the_embeddings(refused, bert_model, tiny_models):
    content = (tiny_models["roberta"] / "tokenizer.json").read_bytes()
    (bert_model / "tokenizer.json").write_bytes(content)
    refused(
        f"{bert_model}: the tokenizer has 387 entries, but the embeddings have only 115 rows; they "
        "do not belong together; restore the tokenizer files.",
        *("show", bert_model),
    )


def test_a_changed_tokenizer(refused, command, bert_model):
    from clozeworks.text.tokenizer import Tokenizer

    saved = Tokenizer.load(bert_model).fingerprint
    path = bert_model / "tokenizer.json"
    state = json.loads(path.read_text(encoding="utf-8"))
    state["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(state), encoding="utf-8")
    found = Tokenizer.load(bert_model).fingerprint
    refused(
        f"{bert_model}: the tokenizer is not the one this model was saved with (fingerprint "
        f"{found[:19]}…, saved {saved[:19]}…); restore its files, or remove clozeworks.json if the "
        "change is meant.",
        *("show", bert_model),
    )
    (bert_model / "clozeworks.json").unlink()
    assert command("show", bert_model).code == 0


def test_an_architecture_that_is_no_name(command, bert_model):
    set_config(bert_model, architectures=[{}])
    assert command("fill", bert_model, "a [MASK]").code == 0


@pytest.mark.parametrize(
    ("modules", "pooling", "sentence"),
    [
        ({}, {}, "modules.json must be a JSON list of steps; restore the file."),
        (
            [{"type": "sentence_transformers.models.Dense"}],
            {},
            "modules.json names a 'Dense' step; Clozeworks computes Transformer, Pooling and "
            "Normalize; remove the step if you can do without it.",
        ),
        ([{"type": "a.Transformer"}], {}, "modules.json has no Pooling step; add one."),
        (
            [{"type": "a.Pooling", "path": "1_Pooling"}],
            {"pooling_mode": "men"},
            "1_Pooling/config.json: pooling_mode is 'men'; known: cls, lasttoken, max, mean, "
            "mean_sqrt_len_tokens, weightedmean. Did you mean 'mean'?",
        ),
        (
            [{"type": "a.Pooling", "path": "1_Pooling"}],
            {"pooling_mode": 5},
            "1_Pooling/config.json: pooling_mode is 5; it must be a name or a list of names; "
            "known: cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken.",
        ),
        (
            [{"type": "a.Pooling", "path": "1_Pooling"}],
            {"pooling_mode_mean_tokens": False},
            "1_Pooling/config.json switches no pooling mode on; set one of "
            "pooling_mode_cls_token, pooling_mode_max_tokens, pooling_mode_mean_tokens, "
            "pooling_mode_mean_sqrt_len_tokens, pooling_mode_weightedmean_tokens, "
            "pooling_mode_lasttoken.",
        ),
        (
            [{"type": "a.Pooling", "path": "2_Pooling"}],
            {},
            "2_Pooling/config.json cannot be read (No such file or directory); restore the file.",
        ),
    ],
)
def test_sentence_files(refused, bert_model, modules, pooling, sentence):
    (bert_model / "modules.json").write_text(json.dumps(modules))
    (bert_model / "1_Pooling").mkdir()
    (bert_model / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    refused(f"{bert_model}/{sentence}", "embed", bert_model, "cat")


def test_sentence_files_elsewhere(refused, bert_model):
    step = {"type": "sentence_transformers.models.Pooling", "path": "../.."}
    (bert_model / "modules.json").write_text(json.dumps([step]))
    refused(
        f"{bert_model / 'modules.json'} names the folder '../..'; it must lie inside {bert_model}; "
        "restore the file.",
        *("embed", bert_model, "cat"),
    )


def test_a_length_limit_that_is_none(refused, bert_model):
    (bert_model / "modules.json").write_text('[{"type": "a.Pooling", "path": "1_Pooling"}]')
    (bert_model / "1_Pooling").mkdir()
    (bert_model / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    path = bert_model / "sentence_bert_config.json"
    path.write_text('{"max_seq_length": "many"}')
    refused(
        f"{path}: max_seq_length is 'many'; it must be a whole number of at least 1.",
        *("embed", bert_model, "cat"),
    )

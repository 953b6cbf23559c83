"""Settings, tokenizers and pooling files that are incomplete, damaged or contradictory."""

import json
import os

import pytest

from clozeworks.families.family import families

FAMILIES = ", ".join(sorted(families()))
ACTIVATIONS = (
    "gelu, gelu_10, gelu_accurate, gelu_fast, gelu_new, gelu_python, gelu_python_tanh, "
    "gelu_pytorch_tanh, hardswish, laplace, leaky_relu, linear, mish, quick_gelu, relu, relu2, "
    "relu6, sigmoid, silu, sqrtsoftplus, swish, tanh"
)
WHOLE = "it must be a whole number from 1 to 2,147,483,647; correct it."


def set_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"model_type": "bertt"},
            f"model_type is 'bertt'; known: {FAMILIES}. Did you mean 'bert'?",
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
            "num_hidden_layers is 1000000000; it must be at most 1,000; correct it.",
        ),
        (
            {"layer_norm_eps": -1.0},
            "layer_norm_eps is -1.0; it must be a number of at least 0; correct it.",
        ),
        (
            {"hidden_act": ["gelu"]},
            f"hidden_act is \"['gelu']\"; known: {ACTIVATIONS}. Did you mean 'gelu'?",
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
            f"hidden_act is 'gelo'; known: {ACTIVATIONS}. Did you mean 'gelu'?",
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
        (b"[]", " is JSON, but not an object; it must have the form {…}; restore the file."),
        (b'"bert"', " is JSON, but not an object; it must have the form {…}; restore the file."),
        (
            '{"name": "café"}'.encode("latin-1"),
            ", line 1: byte 0xe9 is not UTF-8; restore the file, or save it as UTF-8.",
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
    (bert_model / "clozeworks.json").unlink()
    assert command("fill", bert_model, "a [MASK]").code == 0


def test_the_folder_of_a_run_is_not_its_model(refused, bert_model, tmp_path):
    bert_model.rename(tmp_path / "model")
    refused(
        f"{tmp_path} is not a model folder, but {tmp_path / 'model'} is, as in the folder of a "
        "run; name that.",
        *("show", tmp_path),
    )


def test_no_config(refused, bert_model):
    (bert_model / "config.json").unlink()
    refused(
        f"{bert_model} has no config.json, so it is not a model folder; name a folder that "
        "Clozeworks or transformers saved.",
        *("show", bert_model),
    )
    refused(
        f"{bert_model / 'vocab.txt'} is not a folder; give a model folder with config.json, or a "
        "hub name.",
        *("show", bert_model / "vocab.txt"),
    )


def test_a_tokenizer_larger_than_the_embeddings(refused, bert_model, tiny_models):
    content = (tiny_models["roberta"] / "tokenizer.json").read_bytes()
    (bert_model / "tokenizer.json").write_bytes(content)
    (bert_model / "clozeworks.json").unlink()
    refused(
        f"{bert_model}: the tokenizer has 387 entries, but the embeddings have only 115 rows; they "
        "do not belong together; restore the tokenizer files.",
        *("show", bert_model),
    )


def test_a_changed_tokenizer(refused, command, bert_model):
    from tokenizers import Tokenizer as Backend

    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    saved = Tokenizer.load(bert_model)
    path = bert_model / "tokenizer_config.json"
    stated = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**stated, "do_lower_case": False}), encoding="utf-8")
    advice = (
        "restore it, or, if the change is meant, accept it with: clozeworks verify "
        f"{bert_model} --accept"
    )
    refused(f"{path} is not as it was saved: its size is another; {advice}", *("show", bert_model))
    # Saved by Clozeworks it is whole, but another one than the weights were trained with.
    backend = Backend.from_file(str(bert_model / "tokenizer.json"))
    backend.normalizer = None
    Tokenizer(backend).save(bert_model)
    found = Tokenizer.load(bert_model)
    refused(
        f"{bert_model}: the tokenizer is not the one this model was saved with (fingerprint "
        f"{found.fingerprint[:19]}…, saved {saved.fingerprint[:19]}…); {advice}",
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
            [{"type": "sentence_transformers.models.LSTM"}],
            {},
            "modules.json names a 'LSTM' step; Clozeworks computes Transformer, Pooling, Dense, "
            "Normalize, LayerNorm, Dropout and WordWeights; remove the step if you can do "
            "without it.",
        ),
        (
            [{"type": "sentence_transformers.models.Dense"}],
            {},
            "modules.json has a Dense step before the Pooling step; it must follow it; restore "
            "the file.",
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
            "1_Pooling/config.json enables no pooling mode; set one of "
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


@pytest.mark.parametrize("path", ["../..", "a\0b", "\ud800"])
def test_sentence_files_elsewhere(refused, bert_model, path):
    step = {"type": "sentence_transformers.models.Pooling", "path": path}
    (bert_model / "modules.json").write_text(json.dumps([step]))
    refused(
        f"{bert_model / 'modules.json'} names the folder {path!r}; it must be inside {bert_model}; "
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a Unix system")
@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "clozeworks.json", "generation_config.json"]
)
def test_a_pipe_is_not_waited_for(refused, bert_model, name):
    path = bert_model / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    refused(
        f"{path} is a device or a pipe, not a file; restore the file.",
        *("fill", bert_model, "a [MASK]"),
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a Unix system")
def test_a_pipe_is_not_a_vocabulary(refused, bert_model):
    (bert_model / "clozeworks.json").unlink()
    for name in ("tokenizer.json", "vocab.txt"):
        (bert_model / name).unlink()
        os.mkfifo(bert_model / name)
    refused(
        f"{bert_model} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or vocab.json "
        "with merges.txt; copy the files there or name another folder.",
        *("tokenizer", "inspect", bert_model),
    )

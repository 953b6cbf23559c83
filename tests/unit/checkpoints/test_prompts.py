"""Prompts: what a sentence model was trained to find before a text."""

import json

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, UnknownName

FILE = "config_sentence_transformers.json"
PROMPTS = {"query": "the dog: ", "passage": "北京 "}


@pytest.fixture
def sentence_model(bert_model):
    """Makes a folder with a pooling step and prompts, and loads it."""

    def make(pooling=None, **content):
        model = cw.load(bert_model)
        model.pooling = pooling or cw.Pooling()
        model.save(bert_model, overwrite=True)
        (bert_model / FILE).write_text(json.dumps(content), encoding="utf-8")
        (bert_model / "clozeworks.json").unlink()  # as if another library had written it
        return cw.load(bert_model)

    return make


def test_the_file_survives(sentence_model, tmp_path):
    content = {
        "__version__": {"sentence_transformers": "6.2.0"},
        "similarity_fn_name": "dot",
        "prompts": PROMPTS,
        "default_prompt_name": "query",
        "名": [1],
    }
    model = sentence_model(**content)
    model.pooling = cw.Pooling(modes=("max",))
    model.save(tmp_path / "again")
    assert json.loads((tmp_path / "again" / FILE).read_text(encoding="utf-8")) == content
    assert cw.load(tmp_path / "again").prompts == model.prompts


def test_no_file_is_made(bert_model, tmp_path):
    (bert_model / FILE).unlink(missing_ok=True)
    cw.load(bert_model).save(tmp_path / "again")
    assert not (tmp_path / "again" / FILE).exists()


def test_by_name_by_text_and_by_default(sentence_model):
    plain = sentence_model(prompts=PROMPTS)
    expected = plain.embed(["the dog: the cat", "the dog: Paris"])
    texts = ["the cat", "Paris"]
    for prompt in ("query", "the dog: "):
        np.testing.assert_array_equal(plain.embed(texts, prompt=prompt), expected)
    assert not np.allclose(plain.embed(texts), expected, atol=1e-4)
    # A name that is always known, and says nothing unless the folder does.
    np.testing.assert_array_equal(plain.embed(texts, prompt="document"), plain.embed(texts))
    asking = sentence_model(prompts=PROMPTS, default_prompt_name="query")
    np.testing.assert_array_equal(asking.embed(texts), expected)
    np.testing.assert_array_equal(asking.embed(texts, prompt=""), plain.embed(texts))
    assert asking.embed("the cat").shape == (32,)


def test_a_default_without_a_pooling_step_is_not_used(sentence_model, bert_model):
    sentence_model(prompts=PROMPTS, default_prompt_name="query")
    (bert_model / "modules.json").unlink()
    assert cw.load(bert_model).prompts.find() is None


def test_the_prompt_may_be_left_out_of_the_vector(sentence_model):
    model = sentence_model(cw.Pooling(include_prompt=False), prompts=PROMPTS)
    assert str(model.pooling) == "mean pooling, the prompt left out (as the model folder says)"
    tokens = model.hidden_states("the dog: the cat sat")
    assert tokens.tokens[4:7] == ["the", "cat", "sat"]
    found = model.embed("the cat sat", prompt="query")
    np.testing.assert_allclose(found, tokens.vectors[4:].mean(axis=0), atol=1e-5)
    with pytest.raises(InputError) as caught:
        model.embed(["the cat sat"], prompt="query", max_length=4, truncate=True)
    assert str(caught.value) == (
        "text 1 has 4 tokens and the prompt 4, which are not pooled; shorten the "
        "prompt, or raise max_length."
    )


def test_small_letters(sentence_model, bert_model, tmp_path):
    path = bert_model / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": False}))
    (bert_model / "clozeworks.json").unlink()
    model = sentence_model(cw.Pooling(lowercase=True))
    assert str(model.pooling) == "mean pooling, texts in small letters (as the model folder says)"
    np.testing.assert_array_equal(model.embed("THE CAT"), model.embed("the cat"))
    assert model.tokenizer.encode(["CAT"]) != model.tokenizer.encode(["cat"])
    model.save(tmp_path / "again")
    assert cw.load(tmp_path / "again").pooling == model.pooling


def test_small_letters_twice_change_nothing():
    from tokenizers import normalizers

    from clozeworks.text.tokenizer.styles import UnigramStyle

    backend = UnigramStyle().build([("<unk>", 0.0), ("▁", -1.0), ("a", -1.0)])
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    small = cw.Tokenizer(backend)
    assert small.lowercased is small
    backend.normalizer = None
    large = cw.Tokenizer(backend)
    assert large.encode(["A"]) != large.encode(["a"])
    assert large.lowercased.encode(["A"]) == large.encode(["a"])


def test_a_slip_in_a_name_is_no_text(sentence_model):
    model = sentence_model(prompts=PROMPTS)
    with pytest.raises(UnknownName) as caught:
        model.embed("the cat", prompt="qurey")
    assert str(caught.value) == (
        "prompt is 'qurey'; known: document, passage, query. Did you mean 'query'?"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"prompts": ["a"]}, "prompts is ['a']; it must map names to texts; correct it."),
        ({"prompts": {"a": 1}}, "prompts is {'a': 1}; it must map names to texts; correct it."),
        (
            {"prompts": {"a": "b"}, "default_prompt_name": "c"},
            "default_prompt_name is 'c'; known: a, document, query.",
        ),
        (
            {"default_prompt_name": ["query"]},
            "default_prompt_name is \"['query']\"; known: document, query. Did you mean 'query'?",
        ),
        (
            {"truncate_dim": 0},
            "truncate_dim is 0; it must be a whole number of at least 1; correct it.",
        ),
    ],
)
def test_files_that_contradict_themselves(sentence_model, bert_model, content, sentence):
    with pytest.raises((CheckpointError, UnknownName)) as caught:
        sentence_model(**content)
    assert str(caught.value) == f"{bert_model / FILE}: {sentence}"


def test_commands_state_the_prompt(sentence_model, bert_model, command):
    sentence_model(prompts=PROMPTS, default_prompt_name="passage")
    for options, said in (
        ([], "Prompt: '北京 ' (passage, the model folder's default)."),
        (["--prompt", "query"], "Prompt: 'the dog: ' (query, as asked)."),
        (["--prompt", "a text "], "Prompt: 'a text ' (as asked)."),
        (["--prompt", ""], "Prompt: none (as asked)."),
    ):
        outcome = command("embed", bert_model, "the cat", *options)
        assert outcome.code == 0
        assert outcome.err.splitlines()[:2] == [
            "Pooling: mean pooling (as the model folder says).",
            said,
        ]
    shown = command("show", bert_model).out
    assert "\nprompt query: 'the dog: '\nprompt passage: '北京 '\n" in shown
    assert "\nprompt used by embed: '北京 ' (passage, the model folder's default)\n" in shown

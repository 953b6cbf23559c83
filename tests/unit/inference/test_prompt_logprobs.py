"""What a decoder says of the tokens of a prompt, and prompts that are token ids already."""

import dataclasses

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, UnsupportedError
from clozeworks.generate.settings import Generation
from clozeworks.inference.prompt_logprobs import prompt_logprobs
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

PROMPTS = ["the cat", "a dog is good and the fox", "hen", "yes no yes"]


@pytest.fixture(scope="module")
def gpt2(writers):
    return cw.load(writers["gpt2"])


def of_prompts(model, prompts, others=3):
    ids = model.writer().encode(prompts)
    return ids, prompt_logprobs(model.model, ids, others=others, entries=model.tokenizer.size)


def test_they_are_those_of_score_and_of_generate(gpt2):
    ids, found = of_prompts(gpt2, PROMPTS)
    for prompt, own, chances in zip(PROMPTS, ids, found, strict=True):
        assert [each.token for each in chances.tokens] == own
        assert chances.tokens[0].log is None and not chances.tokens[0].others
        if len(own) > 1:
            logs = [each.log for each in chances.tokens[1:]]
            assert logs == pytest.approx(gpt2.score(prompt).logprobs, abs=1e-5)
        (following,) = gpt2.generate(prompt, max_new_tokens=1, top_logprobs=3).tokens
        assert gpt2.tokenizer.token_of(chances.following.token) == following.text
        assert chances.following.log == pytest.approx(following.log, abs=1e-5)
        others = [(gpt2.tokenizer.token_of(n), log) for n, log in chances.following.others]
        assert [name for name, _ in others] == [name for name, _ in following.others]
        for each in (*chances.tokens[1:], chances.following):
            known = dict(each.others)
            assert len(known) == 3 and each.log <= max(known.values())
            assert known.get(each.token, each.log) == each.log


def test_neighbours_change_nothing_and_none_need_be_shown(gpt2):
    _, together = of_prompts(gpt2, PROMPTS, others=0)
    for prompt, found in zip(PROMPTS, together, strict=True):
        _, (alone,) = of_prompts(gpt2, [prompt], others=0)
        pairs = zip((*alone.tokens, alone.following), (*found.tokens, found.following), strict=True)
        for left, right in pairs:
            assert (left.token, left.others, right.others) == (right.token, (), ())
            assert left.log == pytest.approx(right.log, abs=1e-5)


def test_only_decoders_have_them(writers, tiny_models):
    for folder in (writers["t5"], tiny_models["bert"]):
        model = cw.load(folder)
        with pytest.raises(UnsupportedError, match="the tokens of a prompt have no likelihood"):
            prompt_logprobs(model.model, [[3, 4]], others=1, entries=9)


def test_entries_that_the_tokenizer_does_not_have_are_not_shown():
    large, small = (
        train_from_iterator(["the cat sat on the mat"] * 5, kind="bpe", size=size, style=GPT2_STYLE)
        for size in (280, 262)
    )
    shape = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 96}
    model = cw.new("gpt2", large, heads=["vocabulary"], **shape)
    model = cw.LanguageModel(dataclasses.replace(model.checkpoint, tokenizer=small), "small")
    assert small.size < model.blueprint.embeddings.tokens
    (token,) = model.generate("the", max_new_tokens=1, top_logprobs=280).tokens
    assert len(token.others) == small.size
    _, (found,) = of_prompts(model, ["the cat"], others=280)
    assert {number for number, _ in found.following.others} == {*range(small.size)}


def test_token_ids_are_read_as_they_are(gpt2, writers):
    writer, settings = gpt2.writer(), Generation.of(max_new_tokens=6, sample=True, seed=4)
    ids = writer.encode(PROMPTS)
    assert writer.encode([PROMPTS[0], ids[1], ids[2], PROMPTS[3]]) == ids
    assert writer.all(ids, settings) == writer.all(PROMPTS, settings)
    letters = [gpt2.tokenizer.id_of(each) for each in "the"]
    assert writer.encode([letters]) == [letters] != writer.encode(["the"])
    assert writer.all([letters], settings)[0][0].prompt == "the"
    for wrong, sentence in (([], "prompt 2 has no token"), ([9_999], "token id is 9,999; ids go")):
        with pytest.raises(InputError, match=sentence):
            writer.encode(["the", wrong])
    with pytest.raises(InputError, match=r"prompt 1 has 96 tokens; .* has positions for 96"):
        writer.encode([[5] * 96])
    assert writer.read([[5] * 99]) == [[5] * 99]
    answering = cw.load(writers["t5"]).writer()
    (own,) = answering.encode(["the cat"])
    assert answering.all([own], settings) == [
        [dataclasses.replace(text, prompt=answering.tokenizer.decode(own, skip_special=False))]
        for (text,) in answering.all(["the cat"], settings)
    ]

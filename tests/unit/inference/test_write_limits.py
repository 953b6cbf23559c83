"""When texts end, and settings that contradict each other."""

import dataclasses

import pytest
import torch

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, SettingError
from clozeworks.inference.streaming import StopCondition
from clozeworks.tasks.text_to_text.items import SourceItem
from clozeworks.tasks.text_to_text.task import TextToText, Writing


def test_words_that_must_come_and_may_not_are_said(models):
    model = models["gpt2"]
    for settings, sentence in [
        (
            {"required_words": ["the mat"], "bad_words": ["mat"]},
            "required_words is 'the mat'; `bad_words` lists a part of it, 'mat'; leave one of them "
            "out.",
        ),
        (
            {"required_words": ["cat cat"], "no_repeat_ngram_size": 1},
            "required_words is 'cat cat'; it repeats 1 token, and `no_repeat_ngram_size` is 1; "
            "leave one of them out.",
        ),
    ]:
        with pytest.raises(SettingError) as caught:
            model.generate("The", max_new_tokens=9, **settings)
        assert str(caught.value) == sentence
    assert (
        "mat"
        in model.generate(
            "The", max_new_tokens=9, required_words="mat", no_repeat_ngram_size=2
        ).text
    )


@pytest.mark.parametrize("beams", [None, 2])
def test_where_nothing_may_come_any_more_a_text_ends(models, beams, shapes):
    """Every token once, and then nothing is left; the end was to come later still."""
    tokenizer = models["gpt2"].tokenizer
    size = tokenizer.size
    model = cw.new("gpt2", tokenizer, **{**shapes["gpt2"], "n_positions": size + 40})
    text = model.generate(
        "The",
        max_new_tokens=size + 30,
        min_new_tokens=size + 30,
        no_repeat_ngram_size=1,
        num_beams=beams,
    )
    assert text.finish_reason == "end" and size - 10 < len(text.tokens) <= size


def test_rotary_positions_end_where_those_of_training_do(models):
    tokenizer = models["gpt2"].tokenizer
    small = {
        "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 48, "num_hidden_layers": 1, "max_position_embeddings": 24,
    }  # fmt: skip
    model = cw.new("llama-2-7b", tokenizer, heads=("vocabulary",), **small)
    assert model.max_length == 24
    text = model.generate(
        "The cat", max_new_tokens=400, min_new_tokens=22 - len(tokenizer.encode(["The cat"])[0])
    )
    assert text.finish_reason in ("length", "end")
    assert len(text.tokens) <= 24 - 1
    with pytest.raises(InputError, match="has positions for 24, and at least one must be left"):
        model.generate("The cat sat on the mat and the dog lay on the rug. " * 4)


def test_a_turn_ends_with_the_folder_where_the_template_does_not_tell(models):
    model = models["gpt2"]
    source = (
        "{% for m in messages %}<<{{ m.role }}|{{ m.content }}>>{% endfor %}"
        "{% if add_generation_prompt %}<<bot|{% endif %}"
    )
    template = model.tokenizer.with_chat_template(source)
    chatting = cw.LanguageModel(dataclasses.replace(model.checkpoint, tokenizer=template), "chat")
    assert chatting.writer(chat=True).ends == model.writer().ends
    assert chatting.generate("Hi", chat=True, max_new_tokens=3).tokens


@pytest.mark.parametrize("beams", [None, 3])
def test_stop_strings_wait_for_what_must_come(model, beams):
    """The fewest tokens and required words come before a stop string counts."""
    plain = model.generate("The cat", max_new_tokens=30, num_beams=beams)
    stop = plain.text[2:4]
    early = model.generate("The cat", max_new_tokens=30, num_beams=beams, stop=stop)
    if beams is None:  # a search may find a text without it that is likelier
        assert early.finish_reason == "stop" and len(early.tokens) < 12
    late = model.generate(
        "The cat", max_new_tokens=30, num_beams=beams, stop=stop, min_new_tokens=12
    )
    assert len(late.tokens) >= 12
    worded = model.generate(
        "The cat", max_new_tokens=30, num_beams=beams, stop=stop, required_words="rug"
    )
    assert "rug" in worded.text and stop in worded.text
    if beams is None:
        for settings in ({"min_new_tokens": 12}, {"required_words": "rug"}):
            streamed = list(model.stream("The cat", max_new_tokens=30, stop=stop, **settings))
            assert "".join(fresh.text for fresh in streamed) == streamed[-1].whole.text


def test_what_is_due_before_stop_strings(models):
    tokenizer = models["gpt2"].tokenizer
    assert StopCondition().after([], tokenizer) == 0
    assert StopCondition(min_new_tokens=2).after([1], tokenizer) is None
    assert StopCondition(min_new_tokens=2).after([1, 2, 3], tokenizer) == 2
    due = StopCondition(min_new_tokens=1, words=((3, 4), (7,)))
    assert due.after([7, 3, 5, 4], tokenizer) is None
    assert due.after([9, 7, 3, 4, 3, 4], tokenizer) == 4


@pytest.mark.parametrize("beams", [None, 2])
@pytest.mark.parametrize("ask", ["generate", "text_to_text"])
def test_numbers_that_break_later_are_said(models, beams, ask, shapes):
    """A row that is read only once its token was written."""
    model = cw.new(
        "t5-v1_1-small", models["t5"].tokenizer, heads=("vocabulary", "decoder"), **shapes["t5"]
    )
    first = model.generate("on", max_new_tokens=1, min_new_tokens=1).tokens[0].text
    network, number = model.model, model.tokenizer.id_of(first)
    with torch.no_grad():
        network.embeddings.tokens.weight[number] = float("nan")
    assert number not in model.tokenizer.encode(["on"])[0].ids
    with pytest.raises(CheckpointError, match=r"a logit of .* is not finite"):
        if ask == "generate":
            model.generate("on", max_new_tokens=5, num_beams=beams, min_new_tokens=3)
        else:
            task = TextToText(writing=Writing(max_new_tokens=5, num_beams=beams or 1))
            model.predict([SourceItem("on")], task)

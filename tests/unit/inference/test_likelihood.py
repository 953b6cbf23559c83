"""How likely texts are: sums, windows, borders, and the peer's numbers."""

from math import exp, fsum, inf, log

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.inference.likelihood import TOGETHER, Scored, perplexity
from clozeworks.text.tokenizer.styles import GPT2_STYLE, LLAMA_STYLE
from clozeworks.text.training.train import train_from_iterator
from clozeworks.text.windows import sliding_windows

TEXTS = ["The cat sat on the mat.", "A dog ran", "北京 is a city, and the cat is not in it."]
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40}
LLAMA = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "intermediate_size": 48,
}  # fmt: skip
BYT5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2,
}  # fmt: skip


def trained(style):
    return train_from_iterator(TEXTS * 3, kind="bpe", size=300, style=style)


@pytest.fixture(scope="module")
def gpt2():
    return cw.new("gpt2", trained(GPT2_STYLE), initializer_range=0.2, **GPT2)


@pytest.fixture(scope="module")
def llama():
    return cw.new("llama-2-7b", trained(LLAMA_STYLE), initializer_range=0.2, **LLAMA)


@pytest.fixture(scope="module")
def byt5():
    return cw.new("byt5-small", heads=("decoder", "vocabulary"), **BYT5)


def uniform(model):
    with torch.no_grad():
        for name, weight in model.model.named_parameters():
            if "encoder.norm" in name or name.startswith(("heads.", "decoder.norm")):
                weight.zero_()
    return model


def test_what_is_asked(gpt2, llama):
    first, opened = gpt2.score("The cat sat"), llama.score("The cat sat")
    pieces = gpt2.tokenizer.encode(["The cat sat"])[0].ids
    assert first.count == len(pieces) - 1, "nothing stands before the first token"
    assert opened.count == len(llama.tokenizer.encode(["The cat sat"], special=False)[0].ids)
    assert first.tokens == [gpt2.tokenizer.token_of(token) for token in pieces[1:]]
    assert first.total == fsum(first.logprobs) and first.windows == 1
    assert first.perplexity == pytest.approx(exp(-first.total / first.count))


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    tokenizer = trained(GPT2_STYLE)
    for model in (
        uniform(cw.new("gpt2", tokenizer, **GPT2)),
        uniform(cw.new("llama-2-7b", tokenizer, **LLAMA)),
    ):
        for scored in model.score(TEXTS):
            assert scored.perplexity == pytest.approx(tokenizer.size, rel=1e-5)
    model = uniform(cw.new("byt5-small", heads=("decoder", "vocabulary"), **BYT5))
    assert model.score("a", "b").perplexity == pytest.approx(384, rel=1e-5)


def test_perplexity_is_taken_over_tokens():
    scored = [Scored(["a"], [log(0.5)]), Scored(["b"] * 3, [log(0.125)] * 3)]
    assert perplexity(scored) == pytest.approx(exp(-(log(0.5) + 3 * log(0.125)) / 4))
    # Negative control: a mean of the perplexities of texts.
    assert perplexity(scored) != pytest.approx(np.mean([one.perplexity for one in scored]))
    assert Scored(["a"], [-1e9]).perplexity == inf


def test_neighbours_change_nothing(gpt2, llama, byt5):
    for model in (gpt2, llama):
        for text, scored in zip(TEXTS, model.score(TEXTS), strict=True):
            np.testing.assert_allclose(scored.logprobs, model.score(text).logprobs, atol=1e-6)
        small = model.score(TEXTS, batch_tokens=1)
        for one, other in zip(small, model.score(TEXTS), strict=True):
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-6)
    together = byt5.score(TEXTS, TEXTS[::-1])
    for text, answer, scored in zip(TEXTS, TEXTS[::-1], together, strict=True):
        np.testing.assert_allclose(scored.logprobs, byt5.score(text, answer).logprobs, atol=1e-5)


@pytest.mark.parametrize(
    ("prompt", "continuation"), [("The cat", " sat on the mat."), ("The cat ", "sat on the mat.")]
)
def test_a_space_may_stand_on_either_side(gpt2, prompt, continuation):
    whole, scored = gpt2.score("The cat sat on the mat."), gpt2.score(prompt, continuation)
    assert 0 < scored.count < whole.count
    assert scored.logprobs == pytest.approx(whole.logprobs[-scored.count :], abs=1e-6)
    assert "".join(scored.tokens).replace("Ġ", " ").strip() == "sat on the mat."


def test_a_text_is_its_beginning_and_the_rest(gpt2):
    text, begin = TEXTS[2], TEXTS[2].index(" city")
    first, rest = gpt2.score(text[:begin]), gpt2.score(text[:begin], text[begin:])
    assert first.count + rest.count == gpt2.score(text).count
    assert first.total + rest.total == pytest.approx(gpt2.score(text).total, abs=1e-4)


def test_the_end_of_an_answer_counts(byt5):
    scored = byt5.score("question", "ab")
    assert scored.tokens == ["a", "b", "</s>"]


def windows_of(length, first, size, overlap):
    return list(sliding_windows(length, size, overlap, first=first, full=True))


def test_windows():
    assert windows_of(10, 1, 10, 5) == [(0, 1, 10)]
    assert windows_of(25, 1, 10, 4) == [(0, 1, 10), (6, 10, 16), (12, 16, 22), (15, 22, 25)]
    assert windows_of(25, 24, 10, 5) == [(15, 24, 25)]
    assert windows_of(25, 8, 10, 5) == [(0, 8, 10), (5, 10, 15), (10, 15, 20), (15, 20, 25)]
    for length in range(2, 60):
        for first in range(1, length):
            for overlap in (1, 3, 7):
                cut = windows_of(length, first, 8, overlap)
                asked = [place for begin, start, end in cut for place in range(start, end)]
                assert asked == list(range(first, length)), "each is asked for once"
                assert all(end - begin <= 8 and start > begin for begin, start, end in cut)
                assert all(start - begin >= overlap for begin, start, end in cut[1:])


def test_long_texts_are_read_through_windows(gpt2):
    text = " ".join(TEXTS * 3)
    ids = gpt2.tokenizer.encode([text])[0].ids
    assert len(ids) > 40
    scored = gpt2.score(text, overlap=30)
    assert scored.windows == len(windows_of(len(ids), 1, 40, 30))
    assert scored.count == len(ids) - 1
    from clozeworks.core.layout import Layout

    expected = []
    for begin, start, end in windows_of(len(ids), 1, 40, 30):
        with torch.no_grad():
            hidden = gpt2.model(torch.tensor(ids[begin:end]), Layout([end - begin]))
            logs = gpt2.model.heads["vocabulary"](hidden).log_softmax(dim=1)
        expected += [logs[place - begin - 1, ids[place]].item() for place in range(start, end)]
    np.testing.assert_allclose(scored.logprobs, expected, atol=1e-5)
    assert gpt2.score(text, max_length=20).windows > scored.windows / 2


def test_of_a_long_prompt_the_end_counts(gpt2):
    prompt = " ".join(TEXTS * 3)
    scored = gpt2.score(prompt, " cat")
    assert scored.windows == 1 and "".join(scored.tokens) == "Ġcat"
    tokens = len(gpt2.tokenizer.encode([prompt + " cat"])[0].ids)
    assert scored.unread == tokens - gpt2.max_length > 0
    chosen = gpt2.choose(["The cat", prompt], ["good", "bad"])
    assert chosen[0].unread == 0 < chosen[1].unread
    assert gpt2.score(prompt).unread == 0


LABELS = [" sat", " on the mat.", "a", "at and the cat is not in it.", " 北京"]


@pytest.fixture(params=["gpt2", "llama", "byt5"])
def model(request):
    return request.getfixturevalue(request.param)


def passed(model, call):
    """How many tokens go through the model."""
    counts = []
    hook = model.model.embeddings.register_forward_pre_hook(
        lambda _, given: counts.append(len(given[0]))
    )
    call()
    hook.remove()
    return sum(counts)


def same_as_alone(model, prompts, continuations, **options):
    """What is asked together is what each pair says by itself, read as a whole."""
    together = model.score(prompts, continuations, **options)
    for prompt, continuation, scored in zip(prompts, continuations, together, strict=True):
        alone = model.score(prompt, continuation, **{**options, "batch_tokens": None})
        assert (scored.tokens, scored.windows) == (alone.tokens, alone.windows)
        np.testing.assert_allclose(scored.logprobs, alone.logprobs, atol=1e-5)


@pytest.mark.parametrize("budget", [None, 1, 60])
def test_continuations_of_one_prompt_share_its_reading(model, budget):
    # Some labels join with the end of "The c" to another token, and share one less.
    texts = ["A dog ran", "The cat sat on the mat. The c", "A"]
    prompts = [prompt for prompt in texts for _ in LABELS]
    same_as_alone(model, prompts, LABELS * 3, batch_tokens=budget)


def test_neighbours_of_another_prompt_share_nothing_with_it(model):
    same_as_alone(model, ["A dog ran", "A dog", "A dog ran"], [" on", " on", " in"])


def test_parts_of_long_prompts_are_shared_too(gpt2):
    prompt = " ".join(TEXTS * 3)
    prompts, labels = [prompt] * 4, [" cat", " dog", " sat on the mat.", " ".join(TEXTS * 2)]
    same_as_alone(gpt2, prompts, labels)
    assert passed(gpt2, lambda: gpt2.score(prompts[:2], labels[:2])) < 50 < 2 * 40


def test_a_prompt_is_read_once_for_several_labels(model):
    prompt, labels = "The cat sat on the mat. A dog", [" ran", " sat", " is not in it"]
    alone = [passed(model, lambda label=label: model.score(prompt, label)) for label in labels]
    together = passed(model, lambda: model.score([prompt] * 3, labels))
    length = len(model.tokenizer.encode([prompt])[0])
    # The token before a label is read with each; a tokenizer may put one behind the prompt alone.
    assert sum(alone) - together >= 2 * (length - 2)
    chosen = passed(model, lambda: model.choose("The cat sat on the mat.", ["yes", "no"]))
    text = "The cat sat on the mat.\nAnswer: "
    apart = sum(passed(model, lambda x=x: model.score(text, x)) for x in ("yes", "no"))
    assert chosen < 0.7 * apart


def test_many_labels_are_asked_in_turns(gpt2):
    labels = [f" {number}" for number in range(2 * TOGETHER + 1)]
    same_as_alone(gpt2, ["The cat sat"] * len(labels), labels)


def refused(error, sentence, call):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


def test_complaints(gpt2, byt5, tiny_models):
    refused(
        InputError,
        "text 1 has no token with another before it, so nothing can be scored; use a longer text.",
        lambda: gpt2.score("a"),
    )
    refused(
        InputError,
        "the continuation of text 2 is ' '; it must have at least one word; add one.",
        lambda: gpt2.score(["a", "b"], ["c", " "]),
    )
    refused(
        InputError,
        "the prompt of text 1 is ''; a continuation needs a token before it; add a prompt.",
        lambda: gpt2.score("", "cat"),
    )
    refused(
        InputError,
        "continuations has 1 texts and prompts has 2; each prompt needs one; give lists of equal "
        "length.",
        lambda: gpt2.score(["a", "b"], ["c"]),
    )
    refused(
        InputError,
        "texts and continuations do not match; each text needs a continuation; give two texts, or "
        "two lists of equal length.",
        lambda: gpt2.score("a", ["c"]),
    )
    refused(
        SettingError,
        "overlap is 40; it must be at least 1 and below 40, the length of a window.",
        lambda: gpt2.score("The cat", overlap=40),
    )
    refused(
        SettingError,
        "max_length is 41; this model takes at most 40 tokens; lower it.",
        lambda: gpt2.score("The cat", max_length=41),
    )
    refused(
        SettingError,
        "max_length is 1; it must be at least 2.",
        lambda: gpt2.score("The cat", max_length=1),
    )
    refused(
        UnsupportedError,
        "byt5-small is an encoder-decoder, so a text by itself has no likelihood; give the outputs "
        "as continuations.",
        lambda: byt5.score("a"),
    )
    bert = cw.load(tiny_models["bert"])
    refused(
        UnsupportedError,
        f"{bert.name} attends to later tokens, so it cannot score texts; use a decoder "
        "such as GPT-2, or an encoder-decoder such as T5, saved with its language-model head.",
        lambda: bert.score("a cat"),
    )
    without = cw.new("gpt2", gpt2.tokenizer, heads=(), **GPT2)
    refused(
        UnsupportedError,
        "gpt2 has no vocabulary head, so it cannot score texts; use a decoder such as "
        "GPT-2, or an encoder-decoder such as T5, saved with its language-model head.",
        lambda: without.score("a cat"),
    )


@pytest.mark.parity
def test_decoders_as_transformers_computes_them(gpt2, llama, tmp_path):
    transformers = pytest.importorskip("transformers")
    for number, model in enumerate((gpt2, llama)):
        folder = model.save(tmp_path / str(number))
        peer = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        for text, scored in zip(TEXTS, model.score(TEXTS), strict=True):
            ids = torch.tensor([model.tokenizer.encode([text])[0].ids])
            with torch.no_grad():
                logs = peer(ids).logits[0].log_softmax(dim=1)
                mean = peer(ids, labels=ids).loss.item()
            own = logs[:-1].gather(1, ids[0, 1:, None]).squeeze(1)
            np.testing.assert_allclose(scored.logprobs, own.numpy(), atol=1e-5)
            assert log(scored.perplexity) == pytest.approx(mean, abs=1e-5)


@pytest.mark.parity
def test_t5_as_transformers_computes_it(byt5, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = byt5.save(tmp_path / "t5")
    peer = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text, answer in zip(TEXTS, ["yes", "no, not at all", "北京"], strict=True):
        labels = theirs(answer, return_tensors="pt").input_ids
        with torch.no_grad():
            mean = peer(**theirs(text, return_tensors="pt"), labels=labels).loss.item()
        scored = byt5.score(text, answer)
        assert scored.total / scored.count == pytest.approx(-mean, abs=1e-5)


def test_an_answer_must_have_a_beginning(byt5, monkeypatch):
    monkeypatch.setattr(byt5.tokenizer, "pad_id", None)
    monkeypatch.setattr(byt5.checkpoint, "generation", {})
    monkeypatch.setattr(byt5.checkpoint, "config", {})
    for ask in (
        lambda: byt5.score("a", "b"),
        lambda: byt5.choose("a", ["b", "c"]),
        lambda: byt5.exposure(["a"], ["b"]),
    ):
        with pytest.raises(
            UnsupportedError, match="has no decoder start token; state decoder_start"
        ):
            ask()

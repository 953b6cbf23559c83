"""Gaps that a decoder writes into: each is answered in its turn, and scored as a whole."""

import math

import pytest
import torch

import clozeworks as cw
from clozeworks.core.context import AttentionSource
from clozeworks.core.layout import Layout
from clozeworks.errors import (
    CheckpointError,
    InputError,
    SettingError,
    TokenizerError,
    UnsupportedError,
)
from clozeworks.inference import fill_spans
from clozeworks.text.tokenizer.styles import T5_STYLE, UnigramStyle
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

SENTENCES = [
    "The capital of France is Paris, and Paris lies on the Seine.",
    "The cat sat on the mat and the dog lay on the rug.",
    "Thank you for inviting me to your party last week.",
    "我爱北京，北京是中国的首都。",
] * 4
SMALL = {
    "d_model": 32, "d_kv": 8, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_ff": 48,
}  # fmt: skip
TEXTS = [
    "Thank you [MASK] me to your party [MASK] week.",
    "The cat sat on [MASK].",
    "[MASK] is the capital of France.",
    "我爱<extra_id_0>，北京是<extra_id_1>的首都。",
]


@pytest.fixture(scope="module")
def models():
    pieces = train_from_iterator(SENTENCES, kind="unigram", size=230, style=T5_STYLE)
    heads = ("vocabulary", "decoder")
    return {
        "t5": cw.new("t5-small", pieces, heads=heads, seed=2, **SMALL),
        "byt5": cw.new("byt5-small", Tokenizer.of_bytes(), heads=heads, seed=2, **SMALL),
    }


@pytest.fixture(params=["t5", "byt5"])
def model(request, models):
    return models[request.param]


def sentinels(model):
    if model.tokenizer.size == 384:  # ByT5: bytes that hardly occur
        return list(range(258, 158, -1))
    return [model.tokenizer.id_of(f"<extra_id_{number}>") for number in range(100)]


def gaps_of(text):
    return len(fill_spans._ANY_GAP.findall(text))


@pytest.mark.parametrize("top", [1, 3])
def test_every_gap_has_guesses_and_no_neighbour_changes_them(model, top):
    model.model.double()
    together = model.fill(TEXTS, top=top)
    for text, filled in zip(TEXTS, together, strict=True):
        assert len(filled.gaps) == gaps_of(text)
        assert all(1 <= len(gap) <= top for gap in filled.gaps)
        assert all(guess.token and "<" not in guess.token for gap in filled.gaps for guess in gap)
        alone = model.fill(text, top=top)
        assert alone.best == filled.best
        for left, right in zip(alone.gaps, filled.gaps, strict=True):
            assert [guess.word for guess in left] == [guess.word for guess in right]
            assert [guess.score for guess in left] == pytest.approx([g.score for g in right])
    model.model.float()


def test_scores_are_shares_of_what_could_stand_there(model):
    """A guess for a single gap: the product of its tokens and of what ends it, without a cache."""
    text, own = "The cat sat on [MASK].", sentinels(model)
    marked = text.replace("[MASK]", "<extra_id_0>")
    named = model.tokenizer.id_of("<extra_id_0>")
    ids = [own[0] if token == named else token for token in model.tokenizer.encode([marked])[0].ids]
    assert own[0] in ids
    (guesses,) = model.fill(text, top=3).gaps
    assert [guess.score for guess in guesses] == sorted((g.score for g in guesses), reverse=True)
    network = model.model.eval()
    with torch.no_grad():
        layout = Layout([len(ids)])
        encoded = AttentionSource(network(torch.tensor(ids), layout), layout)
        for guess in guesses:
            tokens = [model.tokenizer.id_of(name) for name in guess.token.split(" ")]
            read = torch.tensor([0, own[0], *tokens])
            hidden = network.decode(read, Layout([len(read)]), encoded)
            logs = network.heads["vocabulary"](hidden).log_softmax(dim=1)
            inside = sum(logs[place + 1, token].item() for place, token in enumerate(tokens))
            closing = [logs[len(tokens) + 1, token].item() for token in (1, own[1])]
            wholes = [math.exp(inside + log) for log in closing]
            if len(tokens) == fill_spans.TOKENS - 1:  # there was no room for an end
                wholes = [math.exp(inside)]
            assert any(guess.score == pytest.approx(whole, rel=1e-4) for whole in wholes)


def test_a_model_that_learned_a_sentence_fills_its_gaps(models):
    model = models["t5"]
    tokenizer, own = model.tokenizer, sentinels(model)
    source = "Thank you <extra_id_0> me to your party <extra_id_1> week."
    target = "<extra_id_0> for inviting<extra_id_1> last"
    ids = tokenizer.encode([source])[0].ids
    asked = torch.tensor(tokenizer.encode([target])[0].ids)
    assert own[0] in ids and asked[0] == own[0]
    network = model.model.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    torch.manual_seed(0)
    for _ in range(60):
        layout = Layout([len(ids)])
        encoded = AttentionSource(network(torch.tensor(ids), layout), layout)
        read = torch.cat([torch.zeros(1, dtype=torch.long), asked[:-1]])
        scores = network.heads["vocabulary"](network.decode(read, Layout([len(read)]), encoded))
        loss = torch.nn.functional.cross_entropy(scores, asked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for text in (
        source,
        source.replace("<extra_id_0>", "[MASK]").replace("<extra_id_1>", "<mask>"),
    ):
        filled = model.fill(text, top=2)
        assert filled.best == "Thank you for inviting me to your party last week."
        assert [gap[0].word for gap in filled.gaps] == ["for inviting", "last"]
        assert all(gap[0].score > 0.5 for gap in filled.gaps)


def test_answers_without_room_still_name_every_gap(models, monkeypatch):
    monkeypatch.setattr(fill_spans, "TOKENS", 2)
    for text in TEXTS:
        filled = models["byt5"].fill(text, top=2)
        assert all(gap and len(gap[0].token.split(" ")) == 1 for gap in filled.gaps)


def test_bytes_stand_to_the_letter_where_the_gap_was(models):
    filled = models["byt5"].fill("The cat [MASK] on", top=1)
    assert filled.best == f"The cat {filled.gaps[0][0].word} on"


def test_bad_questions_are_said(models):
    model = models["t5"]
    for text, sentence in [
        ("No gap.", "text 1 ('No gap.') has no gap; write [MASK] where something is missing."),
        (
            "a [MASK]" * 101,
            "text 1 has 101 gaps; the tokenizer has sentinels for 100; split the text.",
        ),
    ]:
        with pytest.raises(InputError) as caught:
            model.fill(text)
        assert str(caught.value) == sentence
    with pytest.raises(SettingError, match=r"top is 0; it must be at least 1\."):
        model.fill("a [MASK]", top=0)
    with pytest.raises(SettingError, match="ranks no list; leave it out"):
        model.fill("a [MASK]", words=["b"])


def test_a_tokenizer_without_sentinels_is_said():
    pieces = train_from_iterator(SENTENCES, kind="unigram", size=230, style=UnigramStyle())
    model = cw.new("t5-small", pieces, heads=("vocabulary", "decoder"), **SMALL)
    with pytest.raises(TokenizerError, match="has no token <extra_id_0>"):
        model.fill("a [MASK]")


def test_a_model_of_bytes_without_a_tokenizer_says_what_to_put_there(models, tmp_path):
    import dataclasses

    point = dataclasses.replace(models["byt5"].checkpoint, tokenizer=None)
    with pytest.raises(UnsupportedError, match="put the files that `clozeworks tokenizer bytes`"):
        cw.LanguageModel(point, "byt5").fill("a [MASK]")


def test_bytes_of_any_script_may_stand_in_a_gap(models):
    """Sentinels of bytes are bytes of characters, too, and must not be missing from them."""
    from clozeworks.generate.logits_processors import BadWords

    gaps = fill_spans._Gaps(models["byt5"].tokenizer, (1,), None)
    prompt = gaps.prompt("ein [MASK] Tag", 1)
    (banned,) = (rule for rule in prompt.rules if isinstance(rule, BadWords))
    never = {word[0] for word in banned.words}
    needed = {byte + 3 for byte in "schön, 北京, 🎉, \U0010ffff".encode()}
    assert not needed & never and {257 - 1, 259} <= never
    assert prompt.ids.count(258) == 1 and prompt.ends == (1, 257)


def test_a_search_is_not_wider_than_the_vocabulary(models):
    with pytest.raises(SettingError, match="top is 9,999; the vocabulary has 384 entries"):
        models["byt5"].fill("a [MASK]", top=9_999)


def test_the_folder_says_what_stood_for_gaps(models, tmp_path, monkeypatch):
    """A model of bytes may have learned with the sentinels of the vocabulary instead."""
    asked = []

    def noted(model, request, options):
        asked.extend(prompt.ids for prompt in request.prompts)
        return write_all(model, request, options)

    write_all = fill_spans.write_all
    monkeypatch.setattr(fill_spans, "write_all", noted)
    models["byt5"].save(tmp_path / "a")
    model = cw.load(tmp_path / "a")
    model.checkpoint.notes["sentinels"] = "named"
    model.save(tmp_path / "b")
    filled = cw.load(tmp_path / "b").fill("a [MASK] b", top=2)
    first = model.tokenizer.id_of("<extra_id_0>")
    assert asked[0].count(first) == 1 and 258 not in asked[0] and len(filled.gaps) == 1
    assert cw.load(tmp_path / "a").fill("a [MASK] b", top=1).gaps
    assert asked[1].count(258) == 1 and first not in asked[1]


def test_a_note_that_names_no_sentinels_is_said(models, tmp_path):
    models["byt5"].save(tmp_path / "a")
    model = cw.load(tmp_path / "a")
    model.checkpoint.notes["sentinels"] = "stars"
    with pytest.raises(CheckpointError, match=r"'stars' in clozeworks\.json; it must"):
        model.fill("a [MASK]")

"""What hidden words cost: computed again by hand, and the same words for every tokenizer."""

import math
from itertools import pairwise

import pytest
import torch

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.errors import InputError, TokenizerError, UnsupportedError
from clozeworks.inference import cloze_cost as costing
from clozeworks.inference.cloze_cost import cloze_cost
from clozeworks.rng import RandomStream
from clozeworks.text.characters import words_of
from clozeworks.text.tokenizer.special import SpecialTokens
from clozeworks.text.tokenizer.styles import WordPieceStyle
from clozeworks.text.training.extend import extend
from clozeworks.text.training.train import train_from_iterator

TEXTS = [
    "the catamaran sat (beside) the gardenia.",
    "don't ask the dogmatic mathematician, he sat on the mat!",
    "北京是中国的首都，我爱北京。",
] * 12  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Models this small only lose by sharing their work, all the more on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=["bert", "roberta"])
def loaded(request, tiny_models):
    return cw.load(tiny_models[request.param])


def hidden_of(texts, seed=0):
    """The words that are hidden, by text: as the function says it chooses them."""
    rng = RandomStream(seed, "cloze cost")
    found = []
    for number, text in enumerate(texts):
        words = words_of(text)
        drawn = rng.uniform(0, number, len(words))[0]
        found.append([word for word, share in zip(words, drawn, strict=True) if share < 0.15])
    return found


def test_the_cost_by_hand(tiny_models):
    """One text at a time, one mask at a time put in by hand, no batches, no packing."""
    loaded = cw.load(tiny_models["bert"])
    network, tokenizer = loaded.model, loaded.tokenizer
    words = tokens = 0
    nats = 0.0
    for text, hidden in zip(TEXTS, hidden_of(TEXTS), strict=True):
        encoded = tokenizer.encode([text], offsets=True)[0]
        asked = []
        for begin, end in hidden:
            pieces = [
                place
                for place, (first, last) in enumerate(encoded.offsets)
                if set(range(first, last)) & set(range(begin, end))
            ]
            if all(encoded.ids[place] != tokenizer.unknown_id for place in pieces):
                words += 1
                asked += pieces
        ids = torch.tensor(encoded.ids)
        ids[asked] = tokenizer.mask_id
        with torch.inference_mode():
            vectors = network(ids, Layout([len(ids)]))
            shares = network.heads["vocabulary"](vectors).log_softmax(dim=-1)
        tokens += len(asked)
        nats -= sum(float(shares[place, encoded.ids[place]]) for place in asked)
    found = cloze_cost(network, tokenizer, TEXTS)
    assert words > 40 and tokens > words
    assert (found.words, found.tokens) == (words, tokens)
    assert found.nats == pytest.approx(nats, rel=1e-5)
    assert found.per_word == found.nats / words
    assert found.per_token == found.nats / tokens


def test_a_model_that_knows_nothing_pays_for_every_entry(loaded):
    for weight in loaded.model.heads["vocabulary"].parameters():
        torch.nn.init.zeros_(weight.data)
    found = cloze_cost(loaded.model, loaded.tokenizer, TEXTS)
    rows = loaded.blueprint.embeddings.tokens
    assert found.per_token == pytest.approx(math.log(rows), rel=1e-6)
    assert found.nats == pytest.approx(found.tokens * math.log(rows), rel=1e-6)


def masked(tokenizer, texts, *, beside=(), seed=0, max_length=None):
    return list(costing._masked(tokenizer, beside, texts, seed, max_length))


def characters(asked, texts):
    """The characters that masks stand for, spaces apart."""
    found = set()
    for item in asked:
        for place in item.positions:
            begin, end = item.encoded.offsets[place]
            found |= {
                (item.text, at) for at in range(begin, end) if not texts[item.text][at].isspace()
            }
    return found


def test_all_of_a_word_is_hidden_and_nothing_else(loaded):
    for item in masked(loaded.tokenizer, TEXTS):
        ids, clean = item.encoded.ids, loaded.tokenizer.encode([TEXTS[item.text]])[0].ids
        assert [
            n for n, (a, b) in enumerate(zip(ids, clean, strict=True)) if a != b
        ] == item.positions
        assert {ids[place] for place in item.positions} == {loaded.tokenizer.mask_id}
        assert [clean[place] for place in item.positions] == item.label_ids


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 75), ("bpe", 270), ("unigram", 50)])
def test_two_tokenizers_hide_the_same_characters(kind, size):
    # Pieces of several words: `).` in byte-level BPE, 北京 in Unigram.
    texts = [f"{text} (so)." for text in TEXTS]
    old = train_from_iterator([text[::-1] for text in texts], kind=kind, size=size)
    new = extend(old, texts, 60).tokenizer
    one, two = masked(old, texts, beside=[new]), masked(new, texts, beside=[old])
    assert characters(one, texts) == characters(two, texts) != set()
    assert [item.words for item in one] == [item.words for item in two]
    fewer = sum(len(item.positions) for item in two)
    assert fewer < sum(len(item.positions) for item in one)
    if kind != "wordpiece":  # there no piece is part of two words
        alone = masked(new, texts)
        assert characters(alone, texts) != characters(masked(old, texts), texts)


def test_words_that_one_tokenizer_cannot_write_are_not_hidden(tiny_models):
    known = cw.load(tiny_models["bert"]).tokenizer
    lacks = train_from_iterator(["the cat sat on the mat"] * 9, kind="wordpiece", size=60)
    assert lacks.encode(["北"], special=False)[0].ids == [lacks.unknown_id]
    text = ["北京 the cat [MASK] 中国"] * 30
    there = {text[0][at] for _, at in characters(masked(known, text), text)}
    assert there & set("北京中国") and not there & set("[MASK]")
    both = {text[0][at] for _, at in characters(masked(known, text, beside=[lacks]), text)}
    assert both and both <= set("thecat")


def test_about_fifteen_percent_of_the_words_and_others_for_another_seed(tiny_models, made_up):
    tokenizer = cw.load(tiny_models["roberta"]).tokenizer  # it can write everything
    texts = [made_up(number) for number in range(400)]
    every = sum(len(words_of(text)) for text in texts)
    found = [masked(tokenizer, texts, seed=seed) for seed in (0, 1)]
    for asked in found:
        spread = math.sqrt(0.15 * 0.85 * every)
        assert abs(sum(item.words for item in asked) - 0.15 * every) < 4 * spread
    assert characters(found[0], texts) != characters(found[1], texts)
    assert characters(masked(tokenizer, texts), texts) == characters(found[0], texts)


@pytest.mark.parametrize("max_length", [None, 512, 20])
def test_long_texts_are_asked_stretch_by_stretch(tiny_models, max_length):
    tokenizer = cw.load(tiny_models["bert"]).tokenizer
    text = " ".join(TEXTS) + " x" + "ﷺ" * 400 + " the end of it"
    room = min(480, (max_length or 999) - 3)
    stretches = list(costing._stretches(text, room))
    assert len(stretches) > 3
    numbers = [word.number for words in stretches for word in words]
    heavy = [n for n, (a, b) in enumerate(words_of(text)) if costing._max_tokens(text[a:b]) > room]
    assert len(heavy) == 1 and sorted(numbers + heavy) == list(range(len(words_of(text))))
    for one, two in pairwise(stretches):  # each is as long as it can be, or a heavy word ends it
        more = text[one[0].begin : two[0].end]
        assert costing._max_tokens(more) > room
    whole = masked(tokenizer, [text], max_length=max_length)
    assert len(whole) > 1
    assert max(len(item.encoded) for item in whole) <= (max_length or 512)


def test_it_stops_when_enough_are_hidden(loaded):
    found = cloze_cost(loaded.model, loaded.tokenizer, TEXTS, max_words=10)
    every = cloze_cost(loaded.model, loaded.tokenizer, TEXTS)
    assert 10 <= found.words < 20 < every.words


def test_nothing_to_hide(loaded):
    assert cloze_cost(loaded.model, loaded.tokenizer, ["", " \n"]) == costing.ClozeCost(0, 0, 0.0)
    assert costing.ClozeCost(0, 0, 0.0).per_word == costing.ClozeCost(0, 0, 0.0).per_token == 0.0


def test_the_mode_of_the_model_comes_back(loaded):
    before = cloze_cost(loaded.model.train(), loaded.tokenizer, TEXTS)
    assert loaded.model.training
    assert cloze_cost(loaded.model.eval(), loaded.tokenizer, TEXTS) == before


def test_refusals(tiny_models, tmp_path):
    loaded = cw.load(tiny_models["bert"])
    with pytest.raises(InputError) as caught:
        cloze_cost(loaded.model, loaded.tokenizer, "one text")
    assert str(caught.value) == "texts is one str; it must be a list of str; put it in a list."
    body = cw.new("bert-tiny", loaded.tokenizer, heads=["pooler"])
    with pytest.raises(UnsupportedError) as refused:
        cloze_cost(body.model, body.tokenizer, TEXTS)
    assert str(refused.value) == (
        "the model has no vocabulary head, so it cannot guess hidden words; use a checkpoint saved "
        "with its masked-language-model head."
    )
    style = WordPieceStyle(special=SpecialTokens(pad="[PAD]", unknown="[UNK]"))
    without = train_from_iterator(TEXTS, kind="wordpiece", size=200, style=style)
    with pytest.raises(
        TokenizerError, match=r"^the tokenizer's mask token is None; gaps need one;"
    ):
        cloze_cost(loaded.model, without, TEXTS)

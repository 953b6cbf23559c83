"""Text token by token: pieces that stay, which together are the whole text."""

import random

import pytest
from tokenizers import Regex, decoders, models
from tokenizers import Tokenizer as Backend

from clozeworks.inference.streaming import StopCondition, Stops, StreamDecoder, first_stop
from clozeworks.text.tokenizer.continuation import Continuation
from clozeworks.text.tokenizer.styles import GPT2_STYLE, GPT_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

SENTENCES = [
    "The capital of France is Paris, and Paris lies on the Seine.",
    "The cat's mat isn't here; the dog lay on the rug, didn't it?",
    "我爱北京，北京是中国的首都。",
] * 4
TEXTS = [
    "今天\n天气很好。The cat",
    " ß\n\tü 🙂👩‍👩‍👧 Paris",
    "the dog's rug, isn't it?",
    "\ufffd▁x",
]
LLAMA = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1)]
)


def with_bytes(decoder):
    """A tokenizer that writes as bytes what it has no piece for."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁The", "▁cat", "The", "cat", "s", "x", ".", "天", "\ufffd", "▁▁"]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    backend = Backend(models.BPE(numbers, [], unk_token="<unk>", byte_fallback=True))
    backend.decoder = decoder
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(backend)


def in_words(decoder):
    """A tokenizer of six words."""
    words = ["[UNK]", "a", "b", ".", " ", "c"]
    numbers = {word: number for number, word in enumerate(words)}
    backend = Backend(models.WordLevel(numbers, unk_token="[UNK]"))
    if decoder is not None:
        backend.decoder = decoder
    return Tokenizer(backend)


@pytest.fixture(scope="module")
def tokenizers():
    return {
        "wordpiece": train_from_iterator(SENTENCES, kind="wordpiece", size=120),
        "byte-level": train_from_iterator(SENTENCES, kind="bpe", size=400, style=GPT2_STYLE),
        "unigram": train_from_iterator(SENTENCES, kind="unigram", size=150),
        "pairs": train_from_iterator(SENTENCES, kind="bpe", size=120, style=GPT_STYLE),
        "bytes": Tokenizer.of_bytes(),
        "llama": with_bytes(LLAMA),
        "unigram with bytes": with_bytes(
            decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        ),
        "no decoder": in_words(None),
    }


KINDS = ["wordpiece", "byte-level", "unigram", "pairs", "bytes", "llama", "unigram with bytes"]
KINDS += ["no decoder"]


def drawn(tokenizer, rng, count):
    """Tokens in any order, among them stretches of text; bytes come in runs."""
    few = rng.sample(range(tokenizer.size), 4)
    found = []
    while len(found) < count:
        match rng.randrange(4):
            case 0:
                found += rng.choices(range(tokenizer.size), k=rng.randrange(6))
            case 1:
                found += rng.choices(few, k=rng.randrange(12))
            case _:
                text = rng.choice(TEXTS)
                begin = rng.randrange(len(text))
                found += tokenizer.encode([text[begin:]], special=False)[0].ids
    return [token for token in found if tokenizer.id_of(tokenizer.token_of(token)) == token][:count]


def added(tokenizer, before, ids):
    known, whole = tokenizer.decode(before), tokenizer.decode([*before, *ids])
    return whole[len(known) :] if whole.startswith(known) else tokenizer.decode(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_stay_and_are_the_whole_text(tokenizers, kind):
    tokenizer, rng = tokenizers[kind], random.Random(kind)
    for _ in range(150):
        before = drawn(tokenizer, rng, rng.randrange(30))
        ids = drawn(tokenizer, rng, rng.randrange(60))
        text = StreamDecoder(tokenizer, before, [])
        given = ""
        for number, token in enumerate(ids, 1):
            given += text.add(token)
            so_far = tokenizer.continued(before, ids[:number])
            assert so_far.startswith(given)
            if not any(tokenizer.token_of(token).startswith("<0x") for token in ids):
                assert so_far[len(given) :] in ("", "\ufffd")
        whole = tokenizer.continued(before, ids)
        assert whole == added(tokenizer, before, ids)
        assert given + text.rest(whole) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_characters_are_never_cut(tokenizers, kind):
    tokenizer = tokenizers[kind]
    for text in TEXTS[:3]:
        step = tokenizer.unfolding(())
        ids = tokenizer.encode([text], special=False)[0].ids
        assert not any("\ufffd" in step(token) for token in ids)


@pytest.mark.parametrize("before", ["", "今天", "\t", "x"])
def test_an_open_character_behind_other_bytes(tokenizers, before):
    tokenizer = tokenizers["llama"]
    known = tokenizer.encode([before], special=False)[0].ids
    step = tokenizer.unfolding(known)
    ids = [tokenizer.id_of(token) for token in ("<0x0A>", "<0xE4>", "cat", "<0x0A>", "s")]
    assert [step(token) for token in ids] == ["", "", "\ufffd\ufffdcat", "", "\ns"]
    assert tokenizer.continued(known, ids) == "\ufffd\ufffdcat\ns"


def test_bytes_far_before_are_read_with_their_run(tokenizers):
    tokenizer = tokenizers["llama"]
    before, ids = (tokenizer.encode([text], special=False)[0].ids for text in ("北京我爱", "你x"))
    assert tokenizer.continued(before, ids) == "你x"
    assert [tokenizer.unfolding(before)(token) for token in ids[-1:]] == ["x"]


def test_a_stop_string_in_a_run_of_bytes_is_seen(tokenizers):
    tokenizer = tokenizers["llama"]
    ids = tokenizer.encode(["我爱北京我爱北京我爱北京。"], special=False)[0].ids
    stops = Stops(tokenizer, ["。"], [()])
    assert [stops(0, ids[:count]) for count in range(len(ids) + 1)] == [False] * len(ids) + [True]


def test_what_is_looked_at_is_short(tokenizers):
    for tokenizer in tokenizers.values():
        looked = 0

        def decode(ids, tokenizer=tokenizer):
            nonlocal looked
            looked += len(ids)
            return tokenizer.decode(ids)

        vocabulary = tokenizer.vocabulary()
        made = Continuation(decode, tokenizer.state["decoder"], vocabulary, tokenizer.special_ids)
        step, rng = made.unfolding(()), random.Random(0)
        ids = [*drawn(tokenizer, rng, 500), *[vocabulary.get("<0xE4>", 5)] * 500]
        ids += [vocabulary.get("Ã", 5)] * 500  # a first byte again and again: never a character
        for token in ids:
            step(token)
        assert looked < 20 * len(ids)


@pytest.mark.parametrize(
    ("decoder", "text"),
    [
        (decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex(r" \."), ".")]), "a.bb"),
        (decoders.CTC(), "a.b"),
    ],
)
def test_what_a_decoder_may_rewrite_waits_for_the_end(decoder, text):
    tokenizer = in_words(decoder)
    ids = [tokenizer.id_of(word) for word in ("a", " ", ".", "b", "b")]
    shown = StreamDecoder(tokenizer, (), [])
    assert [shown.add(token) for token in ids] == [""] * 5
    whole = tokenizer.continued((), ids)
    assert shown.rest(whole) == whole
    assert whole.replace(" ", "") == text


@pytest.mark.parametrize("kind", ["llama", "byte-level", "bytes", "unigram"])
def test_stop_strings_behind_what_is_due_agree_with_the_whole_text(kind, tokenizers):
    """A text that ends at a stop string is cut there, wherever its fewest tokens end."""
    tokenizer = tokenizers[kind]
    ids = tokenizer.encode(["今天今\nx.今.s"], special=False)[0].ids
    for string in ("\n", "."):
        for least in range(len(ids) + 1):
            stops = Stops(tokenizer, [string], [()], StopCondition(min_new_tokens=least))
            ended = next((n for n in range(1, len(ids) + 1) if stops(0, ids[:n])), None)
            written = ids[:ended]
            first = StopCondition(min_new_tokens=least).after(written, tokenizer)
            begin = len(tokenizer.continued((), written[:first]))
            text = tokenizer.continued((), written)
            assert (first_stop(text[begin:], [string]) is None) == (ended is None), least

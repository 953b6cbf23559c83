"""New pieces in a vocabulary: what they save, and that nothing else changes."""

import json
import random
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from clozeworks.errors import InputError, SettingError, UnsupportedError
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.extend import HAIR, extend, measure
from clozeworks.text.training.fusing import Fusing, LongestFirst
from clozeworks.text.training.merging import learn_merges
from clozeworks.text.training.train import train_from_iterator
from clozeworks.text.training.word_counts import WordCounter
from clozeworks.text.words import word_starts

KINDS = ["wordpiece", "bpe", "unigram"]
SYLLABLES = ["ka", "to", "mi", "ren", "sol", "ti", "ba", "un", "ex", "or", "zu", "q", "w"]


def made_up(lines: int, seed: int, words: int = 200) -> list[str]:
    """Words of syllables, the early ones more frequent, other words for another seed."""
    draw = random.Random(seed)
    known = ["".join(draw.choices(SYLLABLES, k=draw.randint(2, 6))) for _ in range(words)]
    rank = [1 / (place + 1) for place in range(words)]
    return [" ".join(draw.choices(known, rank, k=12)) + "." for _ in range(lines)]


GENERAL, FIELD = made_up(600, seed=1), made_up(400, seed=2)


@pytest.fixture(scope="module", params=KINDS)
def old(request) -> Tokenizer:
    return train_from_iterator(GENERAL, kind=request.param, size=350)


@pytest.fixture(scope="module")
def extension(old):
    return extend(old, FIELD, 60)


def tokens_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode([text], special=False)[0].ids


def test_old_pieces_keep_their_ids_and_new_ones_follow(old, extension):
    before, after = old.vocabulary(), extension.tokenizer.vocabulary()
    assert len(extension.pieces) == len(extension.replaced) == 60
    assert {piece: after[piece] for piece in before} == before
    assert [after[piece] for piece in extension.pieces] == list(range(old.size, old.size + 60))
    assert extension.tokenizer.special == old.special
    assert extension.tokenizer.fingerprint != old.fingerprint
    assert extension.tokenizer.state["added_tokens"] == old.state["added_tokens"]


def test_new_pieces_are_really_used(old, extension):
    used = Counter(
        token for item in extension.tokenizer.encode(FIELD, special=False) for token in item.ids
    )
    uses = [used[number] for number in range(old.size, old.size + 60)]
    if old.kind == "bpe":  # a piece on the way to a longer one may stand nowhere by itself
        assert sum(number >= 5 for number in uses) > 40
    else:
        assert min(uses) >= 5


def test_texts_cost_what_the_extension_says(old, extension):
    for tokenizer, cost in ((old, extension.before), (extension.tokenizer, extension.after)):
        tokens = sum(len(item) for item in tokenizer.encode(FIELD, special=False))
        assert (cost.tokens, cost.unknown) == (tokens, 0)
    assert extension.after.tokens_per_word < 0.75 * extension.before.tokens_per_word
    assert extension.before.words == extension.after.words


def test_texts_without_a_new_piece_keep_their_ids(old, extension):
    unchanged = 0
    for text in (word for line in GENERAL for word in line.split()):
        ids = tokens_of(extension.tokenizer, text)
        if max(ids) < old.size:
            assert ids == tokens_of(old, text)
            unchanged += 1
    assert unchanged > 1_000


def test_a_new_piece_stands_for_what_was_there(old, extension):
    if old.kind == "wordpiece":
        for piece, replaced in zip(extension.pieces, extension.replaced, strict=True):
            written = [old.token_of(token).removeprefix("##") for token in replaced]
            assert "".join(written) == piece.removeprefix("##")
            assert old.token_of(replaced[0]).startswith("##") == piece.startswith("##")
        return
    for text in [*GENERAL, *FIELD]:  # undoing every new piece gives the old ids, everywhere
        undone = [
            token
            for new in tokens_of(extension.tokenizer, text)
            for token in (extension.replaced[new - old.size] if new >= old.size else [new])
        ]
        assert undone == tokens_of(old, text)


def test_the_same_text_gives_the_same_pieces(old, extension):
    again = extend(old, [*reversed(FIELD)], 60)
    assert again.pieces == extension.pieces
    assert again.tokenizer.fingerprint == extension.tokenizer.fingerprint


def test_an_extended_tokenizer_is_saved_and_loaded(old, extension, tmp_path):
    extension.tokenizer.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.fingerprint == extension.tokenizer.fingerprint
    assert loaded.encode(FIELD) == extension.tokenizer.encode(FIELD)
    assert all(loaded.decode(tokens_of(loaded, text)) for text in FIELD)
    starts = word_starts(loaded)
    inside = {"wordpiece": "##", "bpe": None, "unigram": None}[old.kind]
    if inside:
        for piece in extension.pieces:
            assert starts[loaded.id_of(piece)] == (not piece.startswith(inside))


def test_an_extension_can_be_extended(old, extension):
    more = extend(extension.tokenizer, FIELD, 20)
    assert more.tokenizer.size == old.size + 80
    assert more.before == extension.after
    assert more.after.tokens < extension.after.tokens


def test_ever_more_pieces_end_where_nothing_is_worth_it(old):
    tokenizer = old
    with pytest.raises(InputError, match=r"^nothing is worth adding: no piece that is missing"):
        for _ in range(5):
            everything = extend(tokenizer, FIELD, 10_000)
            assert len(everything.pieces) < 1_000
            tokenizer = everything.tokenizer
    assert tokenizer.size > old.size


def test_tokens_beside_the_model_keep_their_ids(old):
    """The library would number them behind the grown model."""
    backend = Backend.from_str(json.dumps(old.state))
    backend.add_tokens(["<drug>"])
    backend.add_special_tokens(["[E1]"])
    beside = Tokenizer(backend, special=old.special)
    assert beside.size == old.size + 2
    grown = extend(beside, FIELD, 10).tokenizer
    assert grown.id_of("<drug>") == old.size and grown.id_of("[E1]") == old.size + 1
    assert grown.size == old.size + 12 == len(grown.vocabulary())
    text = f"{GENERAL[0]} <drug> [E1]"
    assert tokens_of(grown, text)[-3:].count(old.size) == 1
    assert tokens_of(grown, text)[-1] == old.size + 1


def test_a_token_beside_the_model_that_would_begin_to_match(bert):
    from tokenizers import AddedToken

    backend = Backend.from_str(json.dumps(bert.state))
    backend.add_tokens([AddedToken("haha", single_word=True, normalized=False)])
    with pytest.raises(UnsupportedError) as caught:
        extend(Tokenizer(backend), ["catcat haha"] * 9, 5)
    assert str(caught.value) == (
        "the word 'haha' would be cut otherwise than before although no new piece is in it (as "
        "'haha'); an added token of the tokenizer has its spelling; remove that token first, or "
        "take the word out of the text."
    )


def test_merges_stand_behind_the_old_ones_and_make_no_old_token(roberta):
    text = ["the cats <mask> cattle </s>", "cattle <mask>x"] * 20
    grown = extend(roberta, text, 100)
    merges = roberta.state["model"]["merges"]
    assert grown.tokenizer.state["model"]["merges"][: len(merges)] == merges
    assert len(grown.tokenizer.state["model"]["merges"]) == len(merges) + len(grown.pieces)
    assert not set(grown.pieces) & roberta.vocabulary().keys()
    assert tokens_of(grown.tokenizer, " cattle") == [grown.tokenizer.id_of("Ġcattle")]
    # The mask in raw text, where special tokens are not looked for, is still text.
    plain = Backend.from_str(json.dumps(grown.tokenizer.state)).model
    assert roberta.mask_id not in [token.id for token in plain.tokenize("<mask>")]


def test_words_and_endings_are_added_if_they_pay(bert):
    """`unhappying` has pieces; `##happying` serves three words with one row."""
    text = ["unhappying", "sathappying", "cathappying the cat sat on mat"] * 30
    one = extend(bert, text, 1)
    assert one.pieces == ["##happying"]
    assert one.replaced == [[bert.id_of("##happy"), bert.id_of("##ing")]]
    more = extend(bert, text, 9)
    assert "unhappying" in more.pieces
    assert more.after.tokens_per_word == 1


def test_missing_characters_of_chinese(bert):
    grown = extend(bert, ["我爱上海", "我爱北京上"] * 10, 10)
    assert grown.pieces == ["上", "海"]  # 20 times, 10 times
    assert grown.replaced == [[bert.unknown_id]] * 2
    assert (grown.before.unknown, grown.after.unknown) == (30, 0)
    assert grown.note == (
        "For this tokenizer each Chinese character is a word of its own, so of Chinese only "
        "characters that it lacks can be added."
    )
    with pytest.raises(InputError, match=r"lower least \(--least\)\. For this tokenizer each Chi"):
        extend(bert, ["我爱北京"] * 10, 10)


def test_a_word_that_stays_unknown_gives_no_piece(bert):
    text = ["zß"] * 9 + ["hß"] * 4  # neither z nor ß can be written; with two rows both can
    assert sorted(extend(bert, text, 2).pieces) != ["##ß"]
    for count in (1, 2, 3):
        grown = extend(bert, text, count)
        assert grown.after.unknown < grown.before.unknown


def test_unigram_writes_characters_it_lacked():
    old = train_from_iterator(GENERAL, kind="unigram", size=350)
    grown = extend(old, ["kato日本 日本語, unka"] * 20, 20)
    assert grown.before.unknown == 40 and grown.after.unknown == 0
    assert any("日本" in piece for piece in grown.pieces)
    mixed = [piece for piece in grown.pieces if "," in piece]
    assert mixed == [","]  # letters and marks are never in one piece
    scores = dict(old.state["model"]["vocab"])
    new = dict(grown.tokenizer.state["model"]["vocab"])
    known = [n for n, ids in enumerate(grown.replaced) if old.unknown_id not in ids]
    for number in known:
        parts = [scores[old.token_of(token)] for token in grown.replaced[number]]
        expected = sum(parts) + HAIR * (len(parts) - 1)
        assert new[grown.pieces[number]] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("texts", "settings", "error", "sentence"),
    [
        ([], {}, InputError, "the text is empty; new pieces come from the words of a text; give "),
        (["", " \n\t"], {}, InputError, "the text is empty; new pieces come from the words of a"),
        ("the cat", {}, InputError, "texts is one str; it must be an iterable of str; put it in a"),
        (["cat", 3], {}, InputError, "text 2 is 3 of type int; texts must be str; convert or drop"),
        (["c\ud83d"], {}, InputError, "text 1 has a lone surrogate (U+D83D) at character 2; "),
        (
            ["cat", "ca\0t"],
            {},
            InputError,
            "text 2 holds the character U+0000; it does not occur in text; take it out.",
        ),
        (["cat"], {"count": 0}, SettingError, "count is 0; it must be at least 1; raise it."),
        (["cat"], {"count": -3}, SettingError, "count is -3; it must be at least 1; raise it."),
        (["cat"], {"least": 0}, SettingError, "least is 0; it must be at least 1; raise it."),
        (
            ["the cat sat"] * 9,
            {},
            InputError,
            "nothing is worth adding: no piece that is missing would be used 5 times in 27 words; "
            "give more text, or lower least (--least).",
        ),
    ],
)
def test_bad_input(bert, texts, settings, error, sentence):
    with pytest.raises(error) as caught:
        extend(bert, texts, **{"count": 10, **settings})
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"), "wordlevel"),
        (models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]), "bpe that is not byte-level"),
        (models.Unigram([("a", -1.0)]), "unigram without an unknown token"),
    ],
)
def test_kinds_that_cannot_be_extended(model, kind):
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(UnsupportedError) as caught:
        extend(Tokenizer(backend), ["ab ab"] * 9, 3)
    assert str(caught.value) == (
        f"the tokenizer is {kind}; pieces can be added to wordpiece, byte-level bpe and unigram; "
        "train a tokenizer for this text instead: clozeworks tokenizer train."
    )


def test_words_are_those_of_the_tokenizer_itself(old):
    texts = ["Kato's miren—un, x\u00a0y  z\u200bq\n\nto 北京 3.5%", *FIELD[:30]]
    backend = Backend.from_str(json.dumps(old.state))
    expected: Counter[str] = Counter()
    for line in "\n".join(texts).split("\n"):
        clean = " ".join(line.split())
        if backend.normalizer is not None:
            clean = backend.normalizer.normalize_str(clean)
        expected.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(clean))
    for copies in (1, 40):  # few lines, and more than are tried
        counter = WordCounter(old)
        for text in texts * copies:
            counter.add(text)
        assert counter.words() == {word: n * copies for word, n in expected.items()}
    assert measure(old, expected).words == expected.total()


def test_a_tokenizer_that_looks_across_spaces_is_asked_line_by_line():
    backend = Backend(models.WordPiece({"[UNK]": 0, "a b": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(".", "removed")
    counter = WordCounter(Tokenizer(backend))
    counter.add("a b.c  d\ne")
    assert counter.words() == {"a b": 1, "c d": 1, "e": 1}


def test_merges_are_those_of_the_plain_algorithm():
    draw = random.Random(3)
    cuts = {tuple(draw.choices("abc", k=draw.randint(2, 9))): draw.randint(1, 9) for _ in range(60)}
    words = {cut: list(cut) for cut in cuts}
    expected, made = [], set("abc")
    for _ in range(25):
        pairs: Counter[tuple[str, str]] = Counter()
        for cut, pieces in words.items():
            for pair in pairwise(pieces):
                pairs[pair] += cuts[cut]
        able = [p for p, n in pairs.items() if n >= 5 and "".join(p) not in made]
        if not able:
            break
        best = min(able, key=lambda pair: (-pairs[pair], "".join(pair), pair))
        expected.append(best)
        made.add("".join(best))
        for pieces in words.values():
            place = 0
            while place + 1 < len(pieces):
                if (pieces[place], pieces[place + 1]) == best:
                    pieces[place : place + 2] = ["".join(best)]
                place += 1
    assert learn_merges(cuts, set("abc"), 25, 5) == expected


def test_the_first_piece_saves_most_of_all():
    """Every part of every word is tried in the plain way."""
    draw = random.Random(5)
    words = {
        "".join(draw.choices("abcd", k=draw.randint(2, 7))): draw.randint(1, 9) for _ in "a" * 80
    }
    known = [*"abcd", *("##" + letter for letter in "abcd"), "ab", "##cd"]

    def cost(*more: str) -> int:
        cutter = LongestFirst([*known, *more], "##")
        return sum(len(cutter.cut(word)) * count for word, count in words.items())

    parts = {
        "##" * bool(a) + word[a:b] for word in words for a in range(7) for b in range(a + 2, 8)
    }
    best = min(cost(part) for part in parts)
    chosen = Fusing(words, LongestFirst(known, "##"), 1).choose(1, known)
    assert cost(*chosen) == best < cost()

"""Pieces: the characters they came from, words, characters that several pieces split."""

import json

import pytest

from clozeworks.look.pieces import rounded


def test_pieces_are_the_text_they_came_from(inside):
    text = "The cat sat, 我爱北京!"
    for kind in ("bert", "roberta", "albert", "gpt2"):
        shown = inside(kind).look.tokens(text)
        assert all(
            piece.text == text[piece.begin : piece.end]
            for piece in shown.pieces
            if not piece.special and piece.end
        )
        # Every piece belongs to exactly one word, and all characters but spaces are there.
        numbers = [number for word in shown.words for number in word.pieces]
        assert sorted(numbers) == list(range(len(shown.pieces)))
        covered = {
            n for word in shown.words if not word.special for n in range(word.begin, word.end)
        }
        assert {n for n, character in enumerate(text) if not character.isspace()} <= covered


def test_a_character_of_several_pieces_is_one_group(inside):
    shown = inside("gpt2").look.tokens("a鑫z")
    groups = [piece.group for piece in shown.pieces if piece.text == "鑫"]
    assert len(groups) > 1
    assert len(set(groups)) == 1
    assert {piece.text for piece in shown.pieces if piece.group not in groups} == {"a", "z"}
    joined = next(word for word in shown.words if "鑫" in word.text)
    assert len(joined.pieces) >= len(groups)


def test_a_pair_has_two_parts(inside):
    shown = inside("bert").look.tokens(("The cat.", "The dog."))
    parts = {piece.text: piece.part for piece in shown.pieces if not piece.special}
    assert parts["cat"] == 0
    assert parts["dog"] == 1
    special = [word for word in shown.words if word.special]
    assert [word.text for word in special] == ["[CLS]", "[SEP]", "[SEP]"]


def test_a_record_has_bytes_and_says_what_is_too_long(inside):
    shown = inside("bert").look.tokens("The cat " * 400)
    record = json.loads(json.dumps(shown.to_dict()))
    assert "reads it through windows, or refuses it" in record["notes"][-1]
    cat = next(piece for piece in record["pieces"] if piece["text"] == "cat")
    assert cat["bytes"] == "63 61 74"
    assert record["pieces"][0]["bytes"] == ""


@pytest.mark.parametrize("text", ["", "   ", "<img src=x>", "a\u0000b", "é́́"])
def test_odd_texts_are_shown(inside, text):
    shown = inside("bert").look.tokens(text)
    assert sum(len(word.pieces) for word in shown.words) == len(shown.pieces)


def test_three_digits():
    assert rounded({"a": [0.123456, 1], "b": (12345.6,)}) == {"a": [0.123, 1], "b": [12300.0]}

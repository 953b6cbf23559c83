"""Schemes: labels read and written, guesses, rules, entities."""

import pytest

from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.tasks.tagging.schemes import (
    BIO,
    BIOES,
    BMES,
    IO,
    IOB1,
    PLAIN,
    find_scheme,
    scheme_of,
    scheme_of_sequences,
)
from clozeworks.tasks.tagging.tags import EntitySpan, ParsedTag, Spelling, spelling_of

BEFORE = Spelling()


def tags(text):
    """Tags of a sentence: `B-PER I-PER O`."""
    return BEFORE.read_all(text.split())


def written(found):
    return " ".join(BEFORE.write(tag) for tag in found)


class TestSpelling:
    @pytest.mark.parametrize(
        ("order", "label", "tag"),
        [
            ("before", "O", ParsedTag("O")),
            ("before", "B-PER", ParsedTag("B", "PER")),
            ("before", "I_PER", ParsedTag("I", "PER")),
            ("before", "B-GPE-CITY", ParsedTag("B", "GPE-CITY")),
            ("before", "L-a_b", ParsedTag("E", "a_b")),
            ("before", "U-LOC", ParsedTag("S", "LOC")),
            ("before", "W-LOC", ParsedTag("S", "LOC")),
            ("before", "M-LOC", ParsedTag("I", "LOC")),
            ("before", "S", ParsedTag("S")),
            ("before", "PER", None),
            ("before", "B-", None),
            ("before", "B+PER", None),
            ("before", "", None),
            ("behind", "PER-B", ParsedTag("B", "PER")),
            ("behind", "GPE-CITY_E", ParsedTag("E", "GPE-CITY")),
            ("behind", "B-PER", None),
            ("behind", "-B", None),
            ("behind", "M", ParsedTag("I")),
            ("bare", "PER", ParsedTag("I", "PER")),
            ("bare", "O", ParsedTag("O")),
        ],
    )
    def test_reading(self, order, label, tag):
        assert Spelling(order=order).read(label) == tag

    @pytest.mark.parametrize(
        ("labels", "spelling"),
        [
            (["O", "B-PER", "I-PER"], Spelling()),
            (["O", "PER_B", "PER_E"], Spelling("behind", "_", "BIES")),
            (["B", "M", "E", "S"], Spelling(letters="BMES")),
            (["B-X", "I-X", "L-X", "U-X"], Spelling(letters="BILU")),
            (["B_X", "M_X", "E_X", "W_X", "O"], Spelling("before", "_", "BMEW")),
            (["O", "PER", "LOC"], Spelling(order="bare")),
            (["O"], Spelling()),
            (["B-S", "S-B"], Spelling()),
            (["O", "B-PER", "X", "[CLS]"], Spelling()),
            (["O", "B-PER", "PERSON"], None),
            (["NOUN", "X", "VERB"], None),
            ([], None),
        ],
    )
    def test_guessing(self, labels, spelling):
        assert spelling_of(labels) == spelling

    @pytest.mark.parametrize("order", ["before", "behind"])
    @pytest.mark.parametrize("separator", ["-", "_"])
    @pytest.mark.parametrize("letters", ["BIES", "BMES", "BILU", "BMEW"])
    def test_what_is_written_is_read(self, order, separator, letters):
        spelling = Spelling(order, separator, letters)
        for tag in [ParsedTag(role, kind) for role in "BIES" for kind in ("A-B", "")] + [
            ParsedTag("O")
        ]:
            assert spelling.read(spelling.write(tag)) == tag
        assert spelling.write(ParsedTag("S", "X")) in {
            f"{letters[3]}{separator}X",
            f"X{separator}{letters[3]}",
        }

    def test_a_label_that_cannot_be_read(self):
        with pytest.raises(InputError) as caught:
            Spelling("behind", "_").read_all(["O", "B-PER"])
        assert str(caught.value) == (
            "word 2: the tag is 'B-PER'; it must be O or be written like PER_B; correct it."
        )


class TestGuessingSchemes:
    @pytest.mark.parametrize(
        ("labels", "name"),
        [
            ("O B-PER I-PER B-LOC I-LOC", "BIO"),
            ("O B-PER", "BIO"),
            ("B-A-B I-A-B", "BIO"),
            ("O PER-B PER-I", "BIO"),
            ("O I-PER I-LOC", "IO"),
            ("O PER LOC", "IO"),
            ("O B_PER I_PER E_PER S_PER", "BIOES"),
            ("O B-PER I-PER L-PER U-PER", "BIOES"),
            ("O B-PER M-PER E-PER W-PER", "BIOES"),
            ("O B-PER E-PER S-PER", "BIOES"),
            ("O S-PER", "BIOES"),
            ("B M E S", "BMES"),
            ("O B-NAME M-NAME E-NAME S-NAME", "BMES"),
            ("NOUN VERB X PUNCT", "plain"),
            ("NOUN B-PER O", "plain"),
            ("LABEL_0 LABEL_1", "plain"),
            ("O", "plain"),
            ("O B-PER I-PER X [CLS] [SEP]", "BIO"),
        ],
    )
    def test_from_labels(self, labels, name):
        assert scheme_of(labels.split()) == name

    def test_roles_of_no_scheme(self):
        with pytest.raises(InputError) as caught:
            scheme_of(["O", "I-PER", "E-PER"])
        assert str(caught.value) == (
            "the labels have the letters E, I; an entity of several words would have no beginning; "
            "name the labels in one of the schemes BIO, IOB1, BIOES, BMES, IO, plain, or choose "
            "plain."
        )

    @pytest.mark.parametrize(
        ("sentences", "name"),
        [
            (["I-A I-A O", "O I-A B-A I-A"], "IOB1"),
            (["I-A B-A", "B-A O"], "BIO"),  # the second sentence begins with B
            (["B-A I-A O", "B-A B-A"], "BIO"),
            (["I-A I-B B-A"], "BIO"),  # B behind another type
            (["B-A I-B B-B"], "BIO"),
            (["O I-A I-B B-B"], "IOB1"),
            (["I-A O I-B"], "IO"),  # no B anywhere: the two schemes say the same
            (["O O"], "plain"),
            (["NOUN VERB"], "plain"),
            (["B-A E-A S-A"], "BIOES"),
        ],
    )
    def test_from_sentences(self, sentences, name):
        assert scheme_of_sequences([sentence.split() for sentence in sentences]) == name

    def test_by_name(self):
        assert find_scheme("BIOES") is BIOES
        with pytest.raises(UnknownName) as caught:
            find_scheme("BIOE")
        assert str(caught.value) == (
            "scheme is 'BIOE'; known: BIO, BIOES, BMES, IO, IOB1, plain. Did you mean 'BIOES'?"
        )


class TestRules:
    @pytest.mark.parametrize(
        ("scheme", "sentence", "place"),
        [
            (BIO, "B-A I-A B-A O B-B I-B", None),
            (BIO, "I-A", 0),
            (BIO, "O I-A", 1),
            (BIO, "B-A I-B", 1),
            (BIO, "B-A E-A", 1),
            (IOB1, "I-A I-A B-A I-B O I-A", None),
            (IOB1, "B-A", 0),
            (IOB1, "I-A B-B", 1),
            (IOB1, "I-A O B-A", 2),
            (BIOES, "B-A I-A E-A S-A B-B E-B O", None),
            (BIOES, "E-A", 0),
            (BIOES, "I-A", 0),
            (BIOES, "B-A O", 1),
            (BIOES, "B-A E-B", 1),
            (BIOES, "S-A I-A", 1),
            (BIOES, "S-A E-A", 1),
            (BIOES, "B-A E-A I-A", 2),
            (BIOES, "O B-A", 2),  # the end
            (BIOES, "B-A I-A", 2),
            (IO, "I-A I-A I-B O", None),
            (IO, "O B-A", 1),
            (BIO, "", None),
        ],
    )
    def test_the_first_fault(self, scheme, sentence, place):
        assert scheme.fault(tags(sentence)) == place

    @pytest.mark.parametrize(
        ("scheme", "sentence", "entities"),
        [
            (BIO, "B-A I-A B-A O B-B", [("A", 0, 2), ("A", 2, 3), ("B", 4, 5)]),
            (BIO, "I-A I-A", []),
            (BIO, "B-A I-B", [("A", 0, 1)]),
            (IOB1, "I-A I-A B-A I-B", [("A", 0, 2), ("A", 2, 3), ("B", 3, 4)]),
            (IOB1, "O B-A I-A", [("A", 2, 3)]),
            (BIOES, "B-A I-A E-A S-A O B-B E-B", [("A", 0, 3), ("A", 3, 4), ("B", 5, 7)]),
            (BIOES, "B-A I-A O S-A", [("A", 3, 4)]),
            (BIOES, "B-A B-A E-A", [("A", 1, 3)]),
            (IO, "I-A I-A I-B", [("A", 0, 2), ("B", 2, 3)]),
            (BIO, "", []),
        ],
    )
    def test_entities(self, scheme, sentence, entities):
        assert scheme.spans(tags(sentence)) == entities

    @pytest.mark.parametrize(
        ("scheme", "sentence"),
        [
            (BIO, "O B-A I-A B-A I-A I-A B-B"),
            (IOB1, "O I-A I-A B-A I-A I-A I-B"),
            (BIOES, "O B-A E-A B-A I-A E-A S-B"),
            (BMES, "O B-A E-A B-A I-A E-A S-B"),
        ],
    )
    def test_writing(self, scheme, sentence):
        entities = [EntitySpan("B", 6, 7), EntitySpan("A", 1, 3), EntitySpan("A", 3, 6)]
        assert written(scheme.tags(entities, 7)) == sentence

    def test_a_first_entity_without_a_type_touches_nothing(self):
        assert IOB1.tags([EntitySpan("", 0, 1), EntitySpan("", 1, 2)], 2) == [
            ParsedTag("I"),
            ParsedTag("B"),
        ]

    def test_entities_that_io_cannot_tell_apart(self):
        entities = [EntitySpan("A", 0, 1), EntitySpan("A", 1, 3), EntitySpan("B", 3, 4)]
        with pytest.raises(InputError) as caught:
            IO.tags(entities, 4)
        assert str(caught.value) == (
            "words 1 and 2: two entities of type 'A' touch; IO cannot tell them apart; choose "
            "another scheme, or make them one with merge=True."
        )
        assert written(IO.tags(entities, 4, merge=True)) == "I-A I-A I-A I-B"
        assert written(IO.tags(entities[1:], 4)) == "O I-A I-A I-B"

    def test_entities_out_of_place(self):
        with pytest.raises(InputError) as caught:
            BIO.tags([EntitySpan("A", 2, 4)], 3)
        assert str(caught.value) == (
            "the entity 'A' of words 3 to 4 does not fit; an entity has at least one word, and "
            "the sentence has 3; correct its words."
        )
        with pytest.raises(InputError, match="does not fit"):
            BIO.tags([EntitySpan("A", 1, 1)], 3)
        with pytest.raises(InputError) as caught:
            BIO.tags([EntitySpan("A", 0, 2), EntitySpan("B", 1, 3)], 3)
        assert str(caught.value) == (
            "the entity 'B' of words 2 to 3 overlaps 'A' of words 1 to 2; a word can have one "
            "tag; remove one."
        )

    def test_plain_tags_spell_nothing(self):
        with pytest.raises(SettingError) as caught:
            PLAIN.spans([ParsedTag("I", "NOUN")])
        assert str(caught.value) == (
            "scheme is 'plain'; its tags stand alone and spell no entities; choose one of: "
            "BIO, IOB1, BIOES, BMES, IO."
        )
        with pytest.raises(SettingError, match="spell no entities"):
            PLAIN.tags([], 3)

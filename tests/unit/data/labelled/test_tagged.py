"""CoNLL columns, CoNLL-U, and lists of words and tags."""

import pytest

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import read_labelled

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
"""
CONLLU = """# newdoc id = x
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

# text = #
1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""


def sentences(read):
    return [list(zip(item.words, item.tags, strict=True)) for item in read.items]


@pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.txt", "a.bmes.gz"])
def test_columns(labelled, name):
    read = labelled(name, CONLL, "tag")
    assert sentences(read) == [[("EU", "B-ORG"), ("rejects", "O")], [("Peter", "B-PER")]]
    assert [item.source_location for item in read.items] == [f"{name}, line 3", f"{name}, line 6"]
    assert (read.kind, read.description) == (
        *("tags", "Columns: words=1 (by its place), tags=4 (by its place)."),
    )


def test_columns_by_number(labelled):
    read = labelled("a.conll", CONLL, "tag", columns={"words": "2", "tags": "3"})
    assert sentences(read)[0] == [("NNP", "B-NP"), ("VBZ", "B-VP")]
    assert read.description == "Columns: words=2 (as named), tags=3 (as named)."


def test_tabs_and_odd_spaces(labelled):
    assert sentences(labelled("a.tsv", "New York\tB-LOC\n\u3000\tO\n", "tag")) == [
        [("New York", "B-LOC"), ("\u3000", "O")]
    ]
    read = labelled("a.bio", "\u3000 O\r\n a\u00a0b   B-X \r\n \t\r\nc O", "tag")
    assert sentences(read) == [[("\u3000", "O"), ("a\u00a0b", "B-X")], [("c", "O")]]
    assert sentences(labelled("a.bio", "# O\n", "tag")) == [[("#", "O")]]
    assert labelled("a.bmes", "高 B-NAME\n勇 E-NAME\n", "tag").items[0].text == "高勇"


def test_words_without_tags(labelled, save):
    read = labelled("a.txt", "a\nb\n\nc\n", "tag")
    assert (read.kind, [item.tags for item in read.items]) == ("none", [None, None])
    save("b.txt", "a O\n")
    with pytest.raises(InputError) as caught:
        read_labelled(["b.txt", "a.txt"], "tag")
    assert str(caught.value) == (
        "a.txt, line 1: the words have no tags, and those of another file have; tag them, or leave "
        "this file out."
    )


@pytest.mark.parametrize("name", ["a.conllu", "a.conll"])
def test_conllu(labelled, name):
    read = labelled(name, CONLLU, "tag")
    assert sentences(read) == [[("I", "PRON"), ("do", "AUX"), ("n't", "PART")], [("#", "SYM")]]
    assert [item.source_location for item in read.items] == [f"{name}, line 3", f"{name}, line 10"]
    assert read.description == "Columns: words=form (by its place), tags=upos (by its place)."
    read = labelled(name, CONLLU, "tag", columns={"tags": "XPOS"})
    assert sentences(read)[1] == [("#", "NN")]
    assert labelled(name, CONLLU, "tag", columns={"tags": "8"}).items[1].tags == ("root",)


def test_a_sentence_with_a_bad_line_is_dropped(bad):
    place = "a.bio, line 2"
    end = "put each word, and what belongs to it, on a line"
    for line, said in (("O", "there is 1 column"), ("b c O", "there are 3 columns")):
        items = bad(
            *(place, f"{said}; the first word has 2; {end}"),
            *("a.bio", f"a O\n{line}\nc O\n\nd B-X\n", "tag"),
        )
        assert [item.words for item in items] == [("d",)]
    bad(place, "the word is empty; give it one", "a.bio", "a\tO\n\tO\n\nd\tO\n", "tag")
    bad(place, "the tag is empty; give it one", "a.bio", "a\tO\nb\t\n\nd\tO\n", "tag")
    good = CONLLU.partition("\n\n")[2]
    bad(
        *("a.conllu, line 4", f"there is 1 column; CoNLL-U has 10, with tabs; {end}"),
        *("a.conllu", f"{good}\n1 a b\n", "tag"),
    )
    bad(
        *(
            "a.conllu, line 4",
            "the number of the word is 'x'; it must be one like 1, 1-2 or 1.1; fix it",
        ),
        *("a.conllu", f"{good}\nx{good.splitlines()[1][1:]}\n", "tag"),
    )


def test_columns_that_are_not_there(wrong):
    wrong(
        "a.bio has no column 3; its first word has 2; correct --columns.",
        *("a.bio", "a O\n", "tag"),
        columns={"tags": "3"},
    )
    wrong(
        "--columns is tags=ner; a.bio has no header; it must be a number from 1 to 2; the word is "
        "usually 1.",
        *("a.bio", "a O\n", "tag", SettingError),
        columns={"tags": "ner"},
    )
    wrong(
        "--columns is tags=pos; a.conllu has no header; it must be a number from 1 to 10, upos or "
        "xpos; the word is usually 1.",
        *("a.conllu", CONLLU, "tag", SettingError),
        columns={"tags": "pos"},
    )


def test_lists(labelled, bad):
    good = '{"tokens": ["a", "b"], "ner_tags": [0, 3]}\n'
    read = labelled("a.jsonl", good, "tag")
    assert read.items == [WordsItem.of_words(["a", "b"], ["0", "3"], "a.jsonl, line 1")]
    assert labelled("a.jsonl", '{"words": ["a"]}\n', "tag").items[0].tags is None
    for words, tags, said in (
        ('["a"]', '["O", "O"]', "there is 1 word and 2 tags; each word needs one"),
        ('"a"', '["O"]', "the words are a string; they must be a list of strings; fix them"),
        (
            "[1]",
            "[1]",
            "the words are a list of other things; they must be a list of strings; fix them",
        ),
        ("[]", "[]", "there are no words; give some"),
        ('["a", " "]', '["O", "O"]', "a word is empty; give it one"),
        (
            '["\\ud800"]',
            '["O"]',
            "a word holds half a character (a lone surrogate); write the whole character",
        ),
        ('["a"]', "null", "the tags are null; they must be a list of strings; fix them"),
        (
            '["a"]',
            "[null]",
            "the tags are a list of other things; they must be a list of strings; fix them",
        ),
        ('["a"]', '[" "]', "a tag is empty; give it one"),
    ):
        line = f'{{"tokens": {words}, "ner_tags": {tags}}}\n'
        items = bad("a.jsonl, line 2", said, "a.jsonl", good + line, "tag")
        assert len(items) == 1

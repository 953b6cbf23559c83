"""Synonyms from settings and files, and every sentence that refuses one."""

import os

import pytest

from clozeworks import config
from clozeworks.data.augment import AugmentSpec
from clozeworks.data.augment.delete import Delete
from clozeworks.data.augment.guess import ReplaceByModel
from clozeworks.data.augment.insert import Insert
from clozeworks.data.augment.passage import Passage
from clozeworks.data.augment.replace import Replace
from clozeworks.data.augment.several import Several
from clozeworks.data.augment.swap import Swap
from clozeworks.data.augment.synonyms import SynonymMatch, Synonyms, like
from clozeworks.errors import ClozeworksError, InputError, SettingError, UnknownName
from clozeworks.tasks.classify import TextItem

pytestmark = pytest.mark.usefixtures("folder")


def found(file, text):
    return Synonyms.of({}, str(file)).matches(Passage.of_text(text))


def refusal(call, *arguments, error=ClozeworksError, **options):
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("near.tsv", "big\thuge\t very large\n\nBIG\tvast\thuge\r\n高兴\t快乐"),
        (
            "near.TSV",
            "\ufeffbig\thuge\tvery  large\tvast\n高兴\t快乐",
        ),
        ("near.json", '{"big": ["huge", "very large", "vast"], "高兴": ["快乐"]}'),
    ],
)
def test_files(save, name, content):
    others = [SynonymMatch(1, 1, ("huge", "very large", "vast")), SynonymMatch(3, 4, ("快乐",))]
    assert found(save(name, content), "A big, 高兴") == others


@pytest.mark.parametrize(
    ("old", "new", "now"),
    [
        ("big", "huge", "huge"),
        ("Big", "huge", "Huge"),
        ("BIG", "huge", "HUGE"),
        ("I", "we", "We"),
        ("Big", "iPad", "iPad"),
        ("BIG", "Paris", "Paris"),
        ("大", "小", "小"),
        ("Big", "小", "小"),
        ("New York", "the city", "The city"),
    ],
)
def test_capital_letters(old, new, now):
    assert like(old, new) == now


FORM = 'write {"word": ["other", ...]}.'
WRONG_LINE = (
    "is not a word and its synonyms; write them with a tab between each two, and no tab at the end."
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "", "a.tsv holds no words; there must be at least one with a synonym; add some."),
        ("a.tsv", "a\tb\n\nbig huge\n", f"a.tsv, line 3: 'big huge' {WRONG_LINE}"),
        ("a.tsv", "big\thuge\t", f"a.tsv, line 1: 'big\\thuge\\t' {WRONG_LINE}"),
        ("a.tsv", "\thuge", f"a.tsv, line 1: '\\thuge' {WRONG_LINE}"),
        (
            "a.tsv",
            "big\tBig",
            "a.tsv: 'big' is its own synonym; that changes nothing; take it out.",
        ),
        (
            "a.tsv",
            b"a\tb\ncaf\xe9\tbar",
            "a.tsv, line 2: byte 0xE9 is not valid UTF-8; convert the file, or say what it is with "
            "--encoding cp1252.",
        ),
        (
            "a.txt",
            "big\thuge",
            "a.txt ends in '.txt'; synonyms are read from .tsv and .json files; convert it, or "
            "rename it.",
        ),
        (
            "a.json",
            "{}",
            "a.json holds no words; there must be at least one with a synonym; add some.",
        ),
        (
            "a.json",
            '{"big":\n["huge"}',
            "a.json, line 2, character 8: this is not valid JSON (Expecting ',' delimiter); "
            f"{FORM}",
        ),
        ("a.json", '["big"]', f"a.json is a list; it must be an object; {FORM}"),
        (
            "a.json",
            '{"big": "huge"}',
            f"a.json: 'big' has a string for synonyms; they must be a list of strings; {FORM}",
        ),
        (
            "a.json",
            '{"big": ["huge", null]}',
            f"a.json: 'big' has null for synonyms; they must be a list of strings; {FORM}",
        ),
        (
            "a.json",
            "[" * 100_000,
            f"a.json: a number is too long or the nesting too deep to read; {FORM}",
        ),
        (
            "a.json",
            '{"big": []}',
            "a.json: 'big' has no synonyms; each word needs at least one; add some, or drop the "
            "word.",
        ),
        (
            "a.json",
            '{"big": [" "]}',
            "a.json: a word is ' '; it must have a visible character; fill it in, or leave it out.",
        ),
        (
            "a.json",
            '{"big": ["\\ud83d"]}',
            "a.json: the word '\\ud83d' holds the lone surrogate \\ud83d; that is half a "
            "character; write the whole character.",
        ),
    ],
)
@pytest.mark.parametrize("kind", [Replace, Insert])
def test_a_file_that_cannot_be_used(save, kind, name, content, message):
    save(name, content)
    assert refusal(kind(file=name).build, error=InputError) == message


def test_a_file_that_cannot_be_read(save, folder):
    save("near.tsv", "a\tb")
    assert refusal(Replace(file="naer.tsv").build) == (
        "naer.tsv does not exist; check the name and the folder. Did you mean 'near.tsv'?"
    )
    (folder / "sub.tsv").mkdir()
    assert refusal(Replace(file="sub.tsv").build) == (
        "sub.tsv is a folder; name one of the files in it."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
def test_a_file_without_permission(save):
    save("near.tsv", "a\tb").chmod(0)
    assert refusal(Replace(file="near.tsv").build) == (
        "near.tsv may not be read by this user; change its permissions, or copy the file."
    )


def test_settings_that_cannot_be_used():
    assert refusal(Replace, error=SettingError) == (
        "synonyms is missing; there are no words to put in; give it, or `file`."
    )
    assert refusal(Insert, words=(), error=SettingError) == (
        "words is missing; there are no words to put in; give it, or `synonyms` or `file`."
    )
    assert refusal(Insert, words=("a",), file="near.tsv", error=SettingError) == (
        "file is set; words come from one source, and `words` is one; leave out one of them."
    )
    assert refusal(Insert(words=("a", " ")).build) == (
        "augment.words: a word is ' '; it must have a visible character; fill it in, or leave it "
        "out."
    )
    assert refusal(Replace(synonyms={"big": ()}).build) == (
        "augment.synonyms: 'big' has no synonyms; each word needs at least one; add some, or drop "
        "the word."
    )
    assert refusal(Swap, which="near", error=SettingError) == (
        "which is 'near'; it must be 'any' or 'neighbours'."
    )
    assert refusal(Several, parts=(), error=SettingError) == (
        "parts is empty; it must be non-empty; add for example {kind = 'delete'}."
    )
    assert refusal(Several.eda, file="near.tsv", copies=0, error=SettingError) == (
        "copies is 0; it must be at least 1."
    )
    assert refusal(ReplaceByModel, top_k=0, error=SettingError) == (
        "top_k is 0; it must be at least 1."
    )


def test_a_guess_needs_a_model(rng):
    needed = (
        "augment.kind is 'replace_by_model'; it needs a masked language model, and there is none; "
        "hand one in with build(guess=...), or choose another kind."
    )
    assert refusal(ReplaceByModel().build, error=SettingError) == needed
    assert refusal(Several(parts=(Delete(), ReplaceByModel())).build, error=SettingError) == needed
    augment = ReplaceByModel(fraction=1.0).build(lambda texts: [["x"]])
    assert refusal(augment, TextItem("one two"), rng, 0, 0, error=InputError) == (
        "guess gave words for 1 of 2 texts; it must give a list of words for each; correct the "
        "function."
    )


def test_a_kind_that_is_not_there():
    message = refusal(config.read, AugmentSpec, {"kind": "delet"}, "augment", error=UnknownName)
    assert message == (
        "augment.kind is 'delet'; known: delete, insert, replace, replace_by_model, several, swap. "
        "Did you mean 'delete'?"
    )

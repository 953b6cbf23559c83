"""What an index does not take: prompts of others, settings without effect, odd arguments."""

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, OutputError, SettingError, UnknownName
from clozeworks.search.store import DocumentStore


@pytest.fixture(scope="module")
def model(tiny_models):
    return cw.load(tiny_models["bert"])


def rows(*numbers):
    return [{"id": f"d{number}", "text": f"The cat sat on {number}."} for number in numbers]


def ids(folder):
    return sorted(each.id for each in DocumentStore(folder).documents())


def test_prompts_that_an_index_does_not_have_are_refused(model, tmp_path):
    cw.Index.build(rows(1), model, tmp_path, query_prompt="ask: ")
    cw.Index.build(rows(2), model, tmp_path, query_prompt="ask: ", document_prompt="")
    with pytest.raises(OutputError) as error:
        cw.Index.build(rows(3), model, tmp_path, query_prompt="other: ")
    assert str(error.value) == (
        f"{tmp_path} was made with 'ask: ' before queries, and 'other: ' is asked for; choose "
        "another folder with --out, or replace it with --overwrite."
    )
    with pytest.raises(OutputError, match="was made with '' before texts, and 'text: ' is asked"):
        cw.Index.build(rows(3), model, tmp_path, document_prompt="text: ")
    assert ids(tmp_path) == ["d1", "d2"]


def test_python_gives_sentences(model, tmp_path):
    index = cw.Index.build(rows(*range(4)), model, tmp_path)
    for wrong, sentence in (
        ([5], "the id is 5; ids of an index are texts; give one, or a list of them."),
        (5, "the id is 5; ids of an index are texts; give one, or a list of them."),
        (["d1", None], "id 2 is None; ids of an index are texts; give one, or a list of them."),
        (["\ud800"], "the id holds the lone surrogate"),
    ):
        with pytest.raises(InputError) as error:
            index.remove(wrong)
        assert str(error.value).startswith(sentence)
    for top in (True, "3", 1.5, None):
        with pytest.raises(SettingError, match="it must be a whole number, at least 1"):
            index.search("cat", top=top)
    with pytest.raises(SettingError, match="top is 0; it must be at least 1"):
        index.search("cat", top=0)
    for where in (5, [5], b"year>1", True):
        with pytest.raises(SettingError, match="a condition is a text as year>=2020, a list of"):
            index.search("cat", where=where)
    for query in (None, 5, b"cat"):
        with pytest.raises(InputError, match=r"the query is .*; a query is a text; give one, or"):
            index.search(query)
    with pytest.raises(InputError, match="query 2 is 5; a query is a text"):
        index.search(["cat", 5])
    with pytest.raises(UnknownName, match="by is '5'; known"):
        index.search("cat", by=5)
    assert len(index) == 4


def test_settings_without_effect_are_refused(command, refused, model, tmp_path):
    out, rule = tmp_path / "index", "it is about documents that are added, and no files are named"
    cw.Index.build(rows(*range(6)), model, out, codes="int8")
    for shown, *options in (
        ("--codes is 'binary'", "--codes", "binary"),
        ("--query-prompt is 'ask: '", "--query-prompt", "ask: "),
        ("--document-prompt is 'text: '", "--document-prompt", "text: "),
        ("--passage-tokens is 30", "--passage-tokens", "30"),
        ("--batch-tokens is 30", "--batch-tokens", "30"),
        ("--model is 'other'", "--model", "other"),
        ("--id-column is 'name'", "--id-column", "name"),
    ):
        refused(
            f"{shown}; {rule}; name files, or leave it out.",
            *("index", "-o", out, "--remove", "d0", *options),
        )
    for option in ("--prune", "--overwrite", "--neighbours"):
        outcome = command("index", "-o", out, "--remove", "d0", option)
        assert outcome.code == 2 and f"{option} is True; {rule}" in outcome.err
    assert len(ids(out)) == 6
    removed = command("index", "-o", out, "--remove", "d0", "--remove", "d0", "--codes", "int8")
    assert removed.out == f"1 document removed; {out} holds 5.\n"

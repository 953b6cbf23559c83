"""Texts with the texts to write for them: columns found, chats read, rows that cannot be used."""

import dataclasses
import json

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.labels import check_labels
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.data.labelled.report import report_on
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError
from clozeworks.tasks.task import read_labelled
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn, WritingItem

TASK = "text-to-text"


def lines(tmp_path, *objects, name="rows.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, objects)) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"source": "a", "target": "b"}, ("a", "b")),
        ({"input": "a", "output": "b"}, ("a", "b")),
        ({"prompt": "a", "completion": "b"}, ("a", "b")),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, ("a", "b")),
        ({"instruction": "a", "input": "x", "output": "b"}, ("a\nx", "b")),
        ({"instruction": "a", "input": "", "output": "b"}, ("a", "b")),
        ({"article": "a", "highlights": "b", "id": "7"}, ("a", "b")),
        ({"email_body": "a", "subject_line": "b"}, ("a", "b")),
        ({"source": "a", "target": 3.8}, ("a", "3.8")),
        ({"source": "a", "target": True}, ("a", "true")),
    ],
)
def test_usual_names_are_known(tmp_path, row, expected):
    found = read_labelled(lines(tmp_path, row, row), TASK)
    assert (found.items[0].source, found.items[0].target) == expected
    assert found.kind == "targets"


def test_csv_columns_by_name_by_content_and_by_number(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("en,de\nA man sleeps.,Ein Mann schläft.\nA dog runs.,Ein Hund rennt.\n")
    found = read_labelled(path, TASK)
    assert (
        found.description == "Columns: source=en (by what it holds), target=de (by what it holds)."
    )
    other = read_labelled(path, TASK, Reading(columns={"source": "de", "target": "1"}))
    assert other.items[0] == SourceItem(
        "Ein Mann schläft.", "A man sleeps.", source_location=f"{path}, row 2"
    )


def test_tasks_and_prefixes_stand_in_rows(tmp_path):
    rows = [
        {"source": "a", "target": "b", "task": "one", "prefix": "do: "},
        {"source": "c", "target": "d", "task": "two", "prefix": ""},
    ]
    first, second = read_labelled(lines(tmp_path, *rows), TASK).items
    assert (first.task, first.prefix) == ("one", "do: ")
    assert (second.task, second.prefix) == ("two", "")


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "User", "content": "hi"}, {"role": "assistant", "content": "yes"}]},
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]},
        {
            "conversations": [{"from": "human", "value": "hi"}],
            "chosen": {"from": "gpt", "value": "yes"},
        },
        {"messages": [{"role": "user", "content": "hi"}], "completion": "yes"},
        {"prompt": "hi", "chosen": [{"role": "assistant", "content": "yes"}]},
    ],
)
def test_chats_are_read_as_published_sets_write_them(tmp_path, row):
    (item,) = read_labelled(lines(tmp_path, row), TASK).items
    assert item.turns == (Turn("user", "hi"), Turn("assistant", "yes"))
    assert (item.source, item.target) == ("user: hi", "yes")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"source": "", "target": "b"}, "the source is empty; give it one"),
        ({"source": "a", "target": " "}, "the target is empty; give it one"),
        ({"source": ["a"], "target": "b"}, "the source is a list; it must be a string; correct it"),
        ({"messages": []}, "the messages are empty; they must be a list of objects with role"),
        ({"messages": "hi"}, "the messages are a string; they must be a list of objects"),
        (
            {"messages": [{"role": "user"}]},
            "turn 1 is an object without role and content; it must have both; fix it",
        ),
        (
            {"messages": [{"role": "user", "content": ""}]},
            "the content of turn 1 is empty; give it one",
        ),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, row, sentence):
    bad = BadRows(skip=True)
    kept = {"messages": [{"role": "user", "content": "hi"}]} if "messages" in row else None
    kept = kept or {"source": "a", "target": "b"}
    read_labelled(lines(tmp_path, kept, row), TASK, bad=bad)
    assert bad.rows[0].source_location == f"{tmp_path / 'rows.jsonl'}, line 2"
    assert bad.rows[0].what.startswith(sentence)


def test_targets_stand_in_all_rows_or_in_none(tmp_path):
    path = lines(tmp_path, {"source": "a", "target": "b"}, {"source": "c", "target": None})
    with pytest.raises(InputError) as caught:
        read_labelled(path, TASK)
    assert str(caught.value).endswith(
        "line 2: it has no target, and other rows have one; give it one, or drop the row with "
        "--skip-bad-rows."
    )
    chats = lines(
        tmp_path,
        {"messages": [{"role": "assistant", "content": "hi"}]},
        {"messages": [{"role": "user", "content": "hi"}]},
    )
    with pytest.raises(InputError) as caught:
        read_labelled(chats, TASK)
    assert str(caught.value).endswith(
        "line 2: the assistant says nothing, and other rows have a target; let it speak, or "
        "drop the row with --skip-bad-rows."
    )
    kept = read_labelled(chats, TASK, bad=BadRows(skip=True))
    assert (kept.kind, len(kept.items), len(kept.bad.rows)) == ("targets", 1, 1)
    bare = read_labelled(lines(tmp_path, {"source": "a"}, {"source": "b"}), TASK)
    assert bare.kind == "none"
    with pytest.raises(
        InputError, match=r"has no targets, and training needs them; name their col"
    ):
        check_labels(bare)


def test_chats_that_end_with_the_user_teach_the_turns_they_have(tmp_path):
    def said(*roles):
        return {
            "messages": [{"role": role, "content": f"{n} {role}"} for n, role in enumerate(roles)]
        }

    chats = lines(
        tmp_path,
        said("user", "assistant", "user"),
        said("user", "assistant", "user", "assistant", "user", "user"),
        said("system", "user", "assistant"),
        said("user", "user"),
    )
    with pytest.raises(InputError, match=r"line 4: the assistant says nothing, and other rows hav"):
        read_labelled(chats, TASK)
    read = read_labelled(chats, TASK, bad=BadRows(skip=True))
    assert (read.kind, len(read.bad.rows)) == ("targets", 1)
    assert [item.target for item in read.items] == ["1 assistant", "3 assistant", "2 assistant"]
    assert [len(item.turns) for item in read.items] == [2, 4, 3]
    assert read.items[1].source_location.endswith("line 2")
    check_labels(read)
    # All of them end so: they teach no less.
    path = lines(tmp_path, said("user", "assistant", "user"), name="alone.jsonl")
    alone = read_labelled(path, TASK)
    assert (alone.kind, [item.target for item in alone.items]) == ("targets", ["1 assistant"])
    # Who asks about chats asks about all of their turns, and what is not there yet is no fault.
    asked = read_items(chats, WritingItem, Reading(asks=True))
    assert [len(item.turns) for item in asked.items] == [3, 6, 3, 2]


def test_chats_in_which_the_assistant_never_speaks_are_no_lessons(tmp_path):
    chats = lines(tmp_path, *({"messages": [{"role": "user", "content": n}]} for n in "ab"))
    bare = read_labelled(chats, TASK)
    assert (bare.kind, len(bare.items)) == ("none", 2)
    with pytest.raises(InputError) as caught:
        check_labels(bare)
    assert str(caught.value) == (
        f"{chats} has no targets, and training needs them: in no chat the assistant speaks; "
        "give each a turn of the role assistant, or, if that stands in a column of its own, "
        "name it with --columns target=NAME. Columns: messages=messages (by its name)."
    )
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    (tmp_path / "whole").mkdir()
    whole = read_labelled(lines(tmp_path / "whole", {"messages": turns}), TASK)
    with pytest.raises(InputError, match="has no targets, and judging a model needs them: in no c"):
        check_labels(whole, bare)
    (tmp_path / "rows").mkdir()
    rows = read_labelled(lines(tmp_path / "rows", {"source": "a"}), TASK)
    mixed = dataclasses.replace(bare, items=[*bare.items, *rows.items])
    with pytest.raises(InputError, match="has no targets, and training needs them; name their col"):
        check_labels(mixed)


def test_the_report_knows_sources_targets_and_tasks(tmp_path):
    rows = [{"source": f"a text {n}", "target": "short", "task": "ab"[n % 2]} for n in range(6)] + [
        {"source": "a text 0", "target": "other", "task": "a"}
    ]
    report = report_on(read_labelled(lines(tmp_path, *rows), TASK))
    assert {amount.name: amount.count for amount in report.train.labels} == {"a": 4, "b": 3}
    assert {spread.what for spread in report.train.lengths} == {
        "source characters",
        "source words",
        "target characters",
        "target words",
    }
    (odd,) = [each for each in report.findings if each.name == "contradictions"]
    assert odd.examples[0].note == "another target in line 1"
    assert not report.obstacle


def test_a_split_keeps_the_share_of_each_task():
    items = [SourceItem(str(n), "x", "ab"[n < 20]) for n in range(100)]
    train, dev = split(items, 0.2, 0)
    assert sum(item.task == "b" for item in dev) == 4
    assert len(train) == 80


def test_a_chat_without_an_answer_is_asked_as_a_whole():
    chat = ChatItem((Turn("system", "be kind"), Turn("user", "hi")))
    assert chat.target is None
    assert chat.prompt == chat.turns

"""Questions in the layout of SQuAD and in flat rows; answers that are not where they should be."""

import json
from dataclasses import replace

import pyarrow
import pytest
from pyarrow import parquet

from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.spans.questions import AnswerSpan, QuestionItem
from clozeworks.tasks.task import read_labelled

CONTEXT = "Anna met Anna in Rome, 在罗马。"


def squad(*questions, context=CONTEXT):
    return json.dumps(
        {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def asked(*answers, **more):
    spans = [{"text": text, "answer_start": begin} for text, begin in answers]
    return {"question": "Where?", "id": "q1", "answers": spans, **more}


PLACE = "a.json, question 2 (id q1)"


def test_squad(labelled):
    content = squad(
        asked(("Rome", 17), ("Rome", 17), ("in Rome", 14)),
        asked(is_impossible=True),
        asked(("罗马", 24), is_impossible=False),
    )
    read = labelled("a.json", content, "answer")
    first, second, third = read.items
    assert first == QuestionItem(
        "Where?",
        CONTEXT,
        (AnswerSpan("Rome", 17), AnswerSpan("in Rome", 14)),
        False,
        "q1",
        "a.json, question 1 (id q1)",
    )
    assert (second.answers, second.impossible) == ((), True)
    assert (third.answers, third.impossible) == ((AnswerSpan("罗马", 24),), False)
    assert (read.kind, read.description) == ("answers", "The layout is SQuAD's.")


def cmrc(*questions, context="罗马在罗马。Anna"):
    paragraph = {"context_id": "P", "context_text": context, "qas": questions, "title": "t"}
    return json.dumps([paragraph], ensure_ascii=False)


def test_the_original_layout_of_cmrc_2018(labelled):
    """It states no positions, so that an answer is taken where it first stands."""
    content = cmrc(
        {"query_id": "Q_0", "query_text": "哪里?", "answers": ["罗马", "罗马", "在罗马"]},
        {"query_id": "Q_1", "query_text": "谁?", "answers": ["Anna", "nobody"]},
    )
    read = labelled("a.json", content, "answer")
    first, second = read.items
    assert first == QuestionItem(
        "哪里?",
        "罗马在罗马。Anna",
        (AnswerSpan("罗马", 0), AnswerSpan("在罗马", 2)),
        False,
        "Q_0",
        "a.json, question 1 (id Q_0)",
    )
    assert (second.answers, second.unlocated) == ((AnswerSpan("Anna", 6),), ("nobody",))
    assert read.description == (
        "The layout is that of CMRC 2018, which states no positions: an answer is taken where it "
        "first stands."
    )


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (3, "this is a number; it must be an object; fix it"),
        ({"query_id": "b", "answers": ["罗马"]}, "the question is empty; give it one"),
        (
            {"query_id": "b", "query_text": "q", "answers": ["nobody"]},
            "the answer 'nobody' does not stand in the context; copy it from there",
        ),
        (
            {"query_id": "b", "query_text": "q", "answers": [3]},
            "an answer is a number; it must be a string; correct it",
        ),
    ],
)
def test_bad_questions_of_cmrc_2018(bad, question, said):
    good = {"query_id": "a", "query_text": "q", "answers": ["罗马"]}
    named = "" if question == 3 else " (id b)"
    bad(f"a.json, question 2{named}", said, "a.json", cmrc(good, question), "answer")


def test_an_endless_id_is_shown_in_part(labelled):
    content = squad({**asked(("Rome", 17)), "id": "7" * 9000})
    (item,) = labelled("a.json", content, "answer").items
    assert item.source_location == f"a.json, question 1 (id {'7' * 79}…)"


def test_squad_has_no_columns(wrong):
    wrong(
        "--columns is 'question=q'; a.json has the layout of SQuAD, and there are no columns; "
        "leave --columns out.",
        *("a.json", squad(asked(("Rome", 17))), "answer"),
        columns={"question": "q"},
    )


def test_questions_without_answers(labelled):
    question = {"question": "Where?"}
    read = labelled("a.json", squad(question), "answer")
    assert read.items == [QuestionItem("Where?", CONTEXT, source_location="a.json, question 1")]
    assert read.kind == "none"


def test_flat_rows(labelled, folder):
    row = {"id": 7, "question": "Where?", "context": CONTEXT}
    spans = (AnswerSpan("Rome", 17),)
    for answers in (
        {"text": ["Rome"], "answer_start": [17]},
        {"text": "Rome", "answer_start": 17},
        [{"text": "Rome", "answer_start": 17}],
        ["Rome"],
        "Rome",
    ):
        for name in ("a.jsonl", "a.json"):
            content = json.dumps({**row, "answers": answers})
            read = labelled(name, content if name == "a.jsonl" else f"[{content}]", "answer")
            unit = "line" if name == "a.jsonl" else "object"
            expected = QuestionItem("Where?", CONTEXT, spans, False, "7", f"{name}, {unit} 1")
            assert read.items == [expected]
    read = labelled("a.json", f"{content}\n{content}\n", "answer")
    assert [item.source_location for item in read.items] == ["a.json, line 1", "a.json, line 2"]
    empty = {"text": [], "answer_start": []}
    assert labelled("a.jsonl", json.dumps({**row, "answers": empty}), "answer").items[0].impossible
    columns = {name: [value] for name, value in row.items()}
    columns["answers"] = [{"text": ["Rome"], "answer_start": [17]}]
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    assert read_labelled("a.parquet", "answer").items[0].answers == spans
    csv = f'question,context,answer,answer_start,is_impossible\nWho?,"{CONTEXT}",Anna,9,0\n'
    read = labelled("a.csv", f'{csv}Who?,"{CONTEXT}",,,True\n', "answer")
    assert [item.answers for item in read.items] == [(AnswerSpan("Anna", 9),), ()]
    assert [item.impossible for item in read.items] == [False, True]


@pytest.mark.parametrize("begin", [0, 18, 400, -1])
def test_an_answer_is_moved_if_it_stands_there_once(labelled, begin):
    read = labelled("a.json", squad(asked(("Rome", begin))), "answer")
    assert read.items[0].answers == (AnswerSpan("Rome", 17),)
    assert [str(row) for row in read.bad.repaired] == [
        f"a.json, question 1 (id q1): the answer 'Rome' stood at 17, not at {begin}; it was moved"
    ]


def test_places_are_not_counted_from_the_end(labelled):
    read = labelled("a.json", squad(asked(("。", -1))), "answer")
    assert read.items[0].answers == (AnswerSpan("。", len(CONTEXT) - 1),)
    assert len(read.bad.repaired) == 1


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (
            asked(("Anna", 2)),
            "the answer 'Anna' stands in the context more than once, and not at 2; correct "
            "answer_start",
        ),
        (
            asked(("Anna", None)),
            "the answer 'Anna' stands in the context more than once, and its start is not stated; "
            "correct answer_start",
        ),
        (
            asked(("x" * 50, 2)),
            f"the answer '{'x' * 40}…' does not stand in the context; copy it from there",
        ),
        (asked((" ", 4)), "an answer is empty; write it, or leave it out"),
        (asked((3, 4)), "an answer is a number; it must be a string; correct it"),
        (
            asked(("Rome", "x")),
            "the start of an answer is 'x'; it must be a whole number; fix it",
        ),
        (
            asked(("Rome", 17), is_impossible=True),
            "the question is marked as impossible and has an answer; take one of them out",
        ),
        ({**asked(), "question": " "}, "the question is empty; give it one"),
        ({**asked(), "question": 3}, "the question is a number; it must be a string; correct it"),
        ({**asked(), "answers": 3}, "the answers are a number; write a list of answers"),
        *(
            (
                {**asked(), "answers": {"text": ["a"], "answer_start": start}},
                "the answers have no list of texts and of as many positions; fix them",
            )
            for start in ([], 3, {"a": 1}, True)
        ),
        *(
            (
                asked(("Rome", start)),
                f"the start of an answer is {shown}; it must be a whole number; fix it",
            )
            for start, shown in (
                ("9" * 5000, f"'{'9' * 39}…"),
                (10**4000, "a number"),
                ([[3]], "a list"),
                (1.5, "1.5"),
            )
        ),
    ],
)
def test_bad_questions(bad, question, said):
    items = bad(PLACE, said, "a.json", squad(asked(("Rome", 17)), question), "answer")
    assert len(items) == 1


def test_one_answer_that_is_found_keeps_the_question(labelled):
    content = squad(asked(("Roma", 17), ("Rome", 17), ("Anna", None), ("Roma", 3)))
    read = labelled("a.json", content, "answer")
    item = read.items[0]
    assert item.answers == (AnswerSpan("Rome", 17),)  # what is trained on
    assert item.gold_texts == ("Rome", "Roma", "Anna")  # what is scored with
    place = "a.json, question 1 (id q1): the answer"
    rule = "has no known place in the context; it counts for scoring, not for training"
    assert [*map(str, read.bad.repaired)] == [f"{place} 'Roma' {rule}", f"{place} 'Anna' {rule}"]
    assert read.bad.rows == []


def test_all_answers_score_and_are_written_again(labelled):
    item = labelled("a.json", squad(asked(("Roma", 17), ("Rome", 17))), "answer").items[0]
    said = Answered("Roma", 17, 21, 1.0, ())
    assert Answer().measure([item], [said]).value == 1
    assert Answer().mistakes([item], [said]) == []
    again = labelled("b.jsonl", json.dumps(item.to_dict()), "answer").items[0]
    assert replace(again, source_location=item.source_location) == item


def test_a_question_of_which_no_answer_is_found_is_bad(bad):
    content = squad(asked(("Rome", 17)), asked(("Roma", 1), ("Milan", 2)))
    said = "the answer 'Roma' does not stand in the context; copy it from there"
    bad(PLACE, said, "a.json", content, "answer")


def test_overlapping_answers_count_as_two(bad):
    content = squad(asked(("b", 3)), asked(("aa", 5)), context="aaab")
    said = (
        "the answer 'aa' stands in the context more than once, and not at 5; correct answer_start"
    )
    bad(PLACE, said, "a.json", content, "answer")


def test_bad_layout(bad, labelled):
    good = json.loads(squad(asked(("Rome", 17))))
    place = "a.json, question 2"
    for paragraph in (3, {"context": "x"}, {"qas": 4}):
        good["data"][0]["paragraphs"][1:] = [paragraph]
        said = "this is null; it must be an object; fix it"
        bad(place, said, "a.json", json.dumps(good), "answer")
    good["data"][0]["paragraphs"][1:] = [{"context": "", "qas": [asked()]}]
    bad(PLACE, "the context is empty; give it one", "a.json", json.dumps(good), "answer")

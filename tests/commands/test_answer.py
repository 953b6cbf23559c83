"""`clozeworks answer`: questions on the command line and in files; answers slice their context."""

import gzip
import io
import json
import sys

import pytest

import clozeworks as cw
from clozeworks.tasks.answer import Answer

QUESTION = "Where is the cat?"
CONTEXT = "\tThe cat 🙂 sat on\r\nthe mat, 北京是中国的首都。"


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    model = cw.load(tiny_models["bert"]).for_task(Answer())
    return model.save(tmp_path_factory.mktemp("q") / "model")


def objects(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_a_context_may_be_a_text_a_file_or_standard_input(command, folder, tmp_path, monkeypatch):
    wanted = cw.load(folder).answer(QUESTION, CONTEXT)
    (tmp_path / "a.txt").write_bytes(CONTEXT.encode())
    (tmp_path / "a.md.gz").write_bytes(gzip.compress(CONTEXT.encode()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTEXT.encode())))
    for context in (CONTEXT, tmp_path / "a.txt", tmp_path / "a.md.gz", "-"):
        outcome = command("answer", folder, QUESTION, context)
        assert (outcome.code, outcome.err) == (0, "")
        [found] = objects(outcome)
        assert (found["answer"], found["begin"], found["end"]) == (
            *(wanted.text, wanted.begin, wanted.end),
        )
        assert found["question"] == QUESTION and found["score"] == pytest.approx(wanted.score)
        assert len(found["candidates"]) == len(wanted.candidates) > 5
        for each in [{**found, "text": found["answer"]}, *found["candidates"]]:
            assert CONTEXT[each["begin"] : each["end"]] == each["text"] != ""


def test_files_of_questions(command, folder, tmp_path, monkeypatch):
    other = "The dog lay on the rug."
    wanted = [each.text for each in cw.load(folder).answer([QUESTION] * 2, [CONTEXT, other])]
    rows = [
        {"id": "a7", "question": QUESTION, "context": CONTEXT},
        {"id": "b", "question": QUESTION, "context": other},
    ]
    paragraphs = [
        {"context": row["context"], "qas": [{"id": row["id"], "question": QUESTION, "answers": []}]}
        for row in rows
    ]
    contents = {
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "a.json": json.dumps({"data": [{"paragraphs": paragraphs}]}),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        outcome = command("answer", folder, tmp_path / name)
        assert outcome.code == 0, outcome.err
        found = objects(outcome)
        assert [each["answer"] for each in found] == wanted
        assert [each["id"] for each in found] == ["a7", "b"]
        assert outcome.err.splitlines()[-1].startswith("2 questions in ")
    line = f"{QUESTION}\t{other}\n".encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    assert [each["answer"] for each in objects(command("answer", folder, "-"))] == wanted[1:]


def test_a_long_context_is_read_whole(command, folder):
    context = "The cat sat on the mat. " * 300
    outcome = command("answer", folder, QUESTION, context, "-k", "2")
    [found] = objects(outcome)
    assert found["windows"] > 5 and len(found["candidates"]) == 2
    assert context[found["begin"] : found["end"]] == found["answer"]
    assert outcome.err.startswith("1 question in ")
    assert outcome.err.endswith("; 1 needed more than one window\n")


def test_answers_for_people(command, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    context = "The cat sat. " * 40
    [found] = objects(command("answer", folder, QUESTION, context))
    shown = command("answer", folder, QUESTION, context, "--no-json", "-k", "3").out.splitlines()
    assert shown[0].startswith(found["answer"][:50])
    assert shown[0].endswith(f"  {found['score']:.3f}")
    assert f"[{found['answer']}]" in shown[1] and len(shown) == 5
    for line, candidate in zip(shown[2:], found["candidates"], strict=False):
        assert line.startswith(f"  {candidate['score']:.3f}  {candidate['text'][:40]}")


def test_a_threshold_lets_a_model_give_no_answer(command, folder):
    # Trap: a negative number looks like an option.
    [none] = objects(command("answer", folder, QUESTION, "The cat sat.", "--threshold", "-1000"))
    assert (none["answer"], none["begin"], none["end"]) == ("", None, None)
    assert any(each["text"] == "" for each in none["candidates"]) and "lead" in none
    shown = command(
        *("answer", folder, QUESTION, "The cat sat.", "--threshold", "-1000", "--no-json")
    ).out
    assert shown == f"no answer  {none['score']:.3f}\n"
    [given] = objects(command("answer", folder, QUESTION, "The cat sat.", "--threshold", "1000"))
    assert given["answer"] and given["lead"] == pytest.approx(none["lead"])


def test_what_cannot_be_answered(refused, folder, tiny_models, tmp_path):
    refused(
        "there is one text; answer needs a question and a context; give both, or name a file that "
        "exists.",
        *("answer", folder, QUESTION),
    )
    refused("the command line: the question is empty; give it one.", "answer", folder, " ", "x")
    refused(
        f"{tmp_path}/no.txt does not exist; check the name and the folder, or, if it is meant as a "
        "text, pipe it in with -.",
        *("answer", folder, QUESTION, tmp_path / "no.txt"),
    )
    (tmp_path / "a.jsonl").write_text('{"question": "x", "text": "y"}\n', encoding="utf-8")
    refused(
        f"{tmp_path}/a.jsonl has no column that looks like the context; its columns: question, "
        "text; name it with --columns context=NAME.",
        *("answer", folder, tmp_path / "a.jsonl"),
    )
    bert = tiny_models["bert"]
    refused(
        f"{bert} cannot answer questions: it has no head for a task; use a checkpoint with such a "
        "head (…ForQuestionAnswering), or train one with clozeworks finetune.",
        *("answer", bert, QUESTION, "The cat sat."),
    )

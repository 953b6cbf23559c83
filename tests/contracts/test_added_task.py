"""A task is one file: put it beside the others and everything works."""

import json
from pathlib import Path

import httpx
import pytest

import clozeworks as cw
from clozeworks.cli.main import run
from clozeworks.tasks.task import task_class

WORDS = ("river", "town", "bridge", "road", "hill", "tower")


def rows(count):
    """Texts in which a sign between two words says how they are related."""
    for number in range(count):
        first, second = WORDS[number % 6], WORDS[(number * 5 + 1) % 6]
        middle, relation = (("near", "near"), ("in", "part_of"))[number // 3 % 2]
        text = f"the {first} is {middle} the {second} of day {number}"
        begin = text.index(second, 4 + len(first))
        head, tail = [4, 4 + len(first)], [begin, begin + len(second)]
        yield {"text": text, "head": head, "tail": tail, "relation": relation}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps(row) for row in rows(60)]
    Path("rows.jsonl").write_text("\n".join(lines) + "\n")
    Path("text.txt").write_text("the river is near the town in day 1 2 @ #\n" * 20)
    tokenizer = cw.train_tokenizer(["text.txt"], kind="wordpiece", size=80)
    cw.new("bert-tiny", tokenizer, num_hidden_layers=1).save("model")
    return tmp_path


def test_one_file_is_a_task(added_task, folder, capsys, serving):
    assert run(["--help"]) == 0
    assert "relate" in capsys.readouterr().out
    assert run(["data", "check", "rows.jsonl", "--task", "relate"]) == 0
    out = capsys.readouterr().out
    assert "60 rows" in out and "part_of" in out and "finetune relate MODEL rows.jsonl" in out
    assert run(["data", "split", "rows.jsonl", "--task", "relate", "--out", "parts"]) == 0
    assert "near" in capsys.readouterr().out

    files = ["parts/train.jsonl", "--dev", "parts/dev.jsonl", "--out", "run"]
    settings = ["training.epochs=8", "training.learning_rate=0.003"]
    assert run(["finetune", "relate", "model", *files, *settings]) == 0
    out = capsys.readouterr().out
    assert "always predicting" in (Path("run") / "report.html").read_text()
    assert "clozeworks relate" in out
    page = Path("run/report.html").read_text()
    assert "Relations of spans" in page and "part_of" in page
    lines = [json.loads(line) for line in Path("run/predictions.jsonl").read_text().splitlines()]
    assert {"text", "head", "tail", "relation", "gold", "source_location"} <= lines[0].keys()
    assert "fine-tuned" in Path("run/model/README.md").read_text()

    assert run(["evaluate", "run/model", "parts/test.jsonl"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run(["relate", "run/model", "parts/test.jsonl", "--json"]) == 0
    asked = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["relation"] for each in asked} <= {"near", "part_of"}
    assert run(["relate", "run/model", "parts/test.jsonl", "--no-json"]) == 0
    assert capsys.readouterr().out.count("the ") >= len(asked)
    assert run(["relate", "--help"]) == 0
    assert "two spans" in " ".join(capsys.readouterr().out.split())

    lines = [json.loads(line) for line in Path("parts/test.jsonl").read_text().splitlines()]
    loaded = cw.load("run/model")
    kind = task_class("relate")
    assert isinstance(loaded.task, kind)
    items = kind.read(["parts/test.jsonl"], {}, *reading()).items
    predictions = loaded.predict(items)
    assert [each.label for each in predictions] == [each["relation"] for each in asked]
    with serving({"spans": loaded}) as address:
        served = cw.connect(address).predict(items)
        assert run(["relate", f"{address}#spans", "parts/test.jsonl", "--json"]) == 0
        check_page(address, lines[:2], [each.label for each in predictions[:2]])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for found in ([each.to_dict() for each in served], lines):
        for one, other in zip(found, asked, strict=True):
            assert one["relation"] == other["relation"]
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-6)
    assert loaded.evaluate(items).primary == "accuracy"
    lines = [json.loads(line) for line in Path("parts/test.jsonl").read_text().splitlines()]
    again = loaded.predict(kind.items_from(lines))
    assert [each.label for each in again] == [each.label for each in predictions]
    loaded.save("again")
    assert [each.label for each in cw.load("again").predict(items)] == [
        p.label for p in predictions
    ]


def check_page(address, rows, labels):
    """A page that does not know the task has what it needs for its fields and its answers."""
    (model,) = httpx.get(f"{address}/v1/abilities").json()["models"]
    form = model["forms"]["relate"]
    assert form["kind"] == "task" and form["title"] == "Relations of spans"
    kinds = {each["name"]: each["kind"] for each in form["inputs"]}
    assert kinds == {"text": "text", "head": "span", "tail": "span"}
    assert all(each["required"] for each in form["inputs"])
    assert sorted(form["labels"]) == ["near", "part_of"]
    inputs = [{name: row[name] for name in kinds} for row in rows]
    answer = httpx.post(f"{address}{form['path']}", json={"inputs": inputs, "show": True}).json()
    for row, shown, label in zip(inputs, answer["shown"], labels, strict=True):
        assert shown["headline"] == label and len(shown["scores"]) == 2
        assert shown["marked"]["text"] == row["text"]
        spans = {mark["name"]: [mark["begin"], mark["end"]] for mark in shown["marked"]["marks"]}
        assert spans == {"head": row["head"], "tail": row["tail"]}


def reading():
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import Reading

    return Reading(), BadRows()


def test_its_mistakes_get_a_sentence(added_task, folder, capsys):
    assert run(["relate", "model", "a text alone"]) == 2
    assert "a text alone has no spans" in capsys.readouterr().err
    assert run(["relate", "model", "rows.jsonl"]) == 2
    assert "model cannot relate spans: it has no head for a task" in capsys.readouterr().err
    Path("bad.jsonl").write_text('{"text": "a b", "head": 3, "tail": [0, 1], "relation": "near"}\n')
    assert run(["data", "check", "bad.jsonl", "--task", "relate"]) == 2
    assert "no row is left" in capsys.readouterr().err

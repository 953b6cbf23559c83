"""`clozeworks classify`: every kind of input and output, and what it says of bad ones."""

import gzip
import io
import json
import sys

import pytest

import clozeworks as cw
from clozeworks.data import chunks
from clozeworks.data.files import tables
from clozeworks.language_model.model import LanguageModel
from clozeworks.tasks.classify import Classify

TEXTS = ["the cat sat on the mat", "北京的天气很好 🙂\tin Paris", "the dog"]


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    task = Classify(labels=("bad", "so-so", "good"))
    return cw.load(tiny_models["bert"]).for_task(task).save(tmp_path_factory.mktemp("c") / "model")


def made(tiny_models, folder, task):
    return cw.load(tiny_models["bert"]).for_task(task).save(folder / "other")


def objects(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


def piped(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))


def test_a_text_is_answered_as_python_answers_it(command, folder):
    outcome = command("classify", folder, TEXTS[0])
    wanted = cw.load(folder).classify(TEXTS[0])
    assert (outcome.code, outcome.err) == (0, "")
    [found] = objects(outcome)
    assert list(found) == ["text", "label", "score", "scores", "windows"]
    assert found["label"] == wanted.label and found["windows"] == 1
    assert found["score"] == pytest.approx(wanted.score)
    assert found["scores"] == pytest.approx(wanted.scores)
    assert list(found["scores"].values()) == sorted(found["scores"].values(), reverse=True)


def test_every_kind_of_input_gives_the_same_answers(command, folder, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    wanted = [(answer.label, answer.score) for answer in cw.load(folder).classify(TEXTS)]
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    contents = {
        "a.txt": "".join(f"{text}\r\n" for text in TEXTS),
        "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "a.csv": "id,text\n" + "".join(f'{row["id"]},"{row["text"]}"\n' for row in rows),
        "a.json": json.dumps(rows),
    }
    paths = []
    for name, content in contents.items():
        paths += [tmp_path / name, tmp_path / f"{name}.gz"]
        paths[-2].write_text(content, encoding="utf-8", newline="")
        paths[-1].write_bytes(gzip.compress(content.encode()))
    paths.append(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), paths[-1])
    piped(monkeypatch, contents["a.txt"])
    for source in [*paths, "-"]:
        outcome = command("classify", folder, source)
        assert outcome.code == 0, outcome.err
        found = objects(outcome)
        assert [each["text"] for each in found] == TEXTS
        for each, (label, score) in zip(found, wanted, strict=True):
            assert each["label"] == label and each["score"] == pytest.approx(score, abs=1e-5)
        assert outcome.err.splitlines()[-1].startswith("3 texts in ")
    assert found[1]["source_location"] == "standard input, line 2"


def test_columns_are_found_or_named_and_stated(command, folder, tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("review\tstars\nthe cat\t3\nthe dog\t3\n", encoding="utf-8")
    outcome = command("classify", folder, path)
    assert outcome.err.splitlines()[0] == "Columns: text=review (by its name)."
    assert [each["source_location"] for each in objects(outcome)] == [
        f"{path}, row 2",
        f"{path}, row 3",
    ]
    outcome = command("classify", folder, path, "--columns", "text=2", "--no-header")
    assert outcome.err.splitlines()[0] == "Columns: text=2 (as named); no header."
    assert [each["text"] for each in objects(outcome)] == ["stars", "3", "3"]


def test_a_file_is_read_and_answered_piece_by_piece(command, folder, tmp_path, monkeypatch):
    """However small the pieces, the answers are the same and in order."""
    path = tmp_path / "a.csv"
    path.write_text("text,n\n" + "".join(f"the cat {n},{n}\n" for n in range(40)), encoding="utf-8")
    whole = objects(command("classify", folder, path))
    asked = []

    def noted(self, items, *arguments, **options):
        asked.append(len(items))
        return ask(self, items, *arguments, **options)

    ask = LanguageModel.predict
    monkeypatch.setattr(LanguageModel, "predict", noted)
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 100)
    monkeypatch.setattr(tables, "HEAD_ROWS", 3)
    pieces = objects(command("classify", folder, path))
    assert [each["text"] for each in pieces] == [f"the cat {n}" for n in range(40)]
    assert [each["label"] for each in pieces] == [each["label"] for each in whole]
    assert max(asked) <= 12 and sum(asked) == 40


def test_answers_for_people(command, folder, tiny_models, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    (tmp_path / "a.txt").write_text("the cat " * 30 + "\n北京\x1b[31m的天气\n", encoding="utf-8")
    outcome = command("classify", folder, tmp_path / "a.txt", "--no-json")
    first, second = outcome.out.splitlines()
    label = cw.load(folder).classify("the cat " * 30)
    assert first.startswith(f"{label.label}  {label.score:.3f}  the cat the")
    assert first.endswith("…") and len(first) == 40
    assert second.endswith("  北京\\x1b[31m的天气")
    outcome = command("classify", folder, "the cat", "--no-json", "-k", "2")
    assert len(outcome.out.splitlines()) == 3 and outcome.err == ""
    several = made(tiny_models, tmp_path, Classify(labels=("a", "b"), problem="several"))
    labels = objects(command("classify", several, "the cat"))[0]["label"]
    shown = command("classify", several, "the cat", "--no-json").out
    assert shown.startswith(f"{', '.join(labels) or 'no label'}  0.")


def test_a_terminal_is_written_to_for_people(command, folder, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    shown = command("classify", folder, "the cat").out
    assert shown.endswith("  the cat\n") and not shown.startswith("{")
    assert objects(command("classify", folder, "the cat", "--json"))[0]["text"] == "the cat"


def test_numbers_have_no_score(command, tiny_models, tmp_path, refused):
    folder = made(tiny_models, tmp_path, Classify(labels=("stars",), problem="number"))
    [found] = objects(command("classify", folder, "the cat"))
    assert list(found) == ["text", "label", "windows"] and isinstance(found["label"], float)
    shown = command("classify", folder, "the cat", "--no-json").out
    assert shown == f"{found['label']:.3f}  the cat\n"
    refused(
        "--top is 2; this model predicts a number; leave --top out.",
        *("classify", folder, "the cat", "--top", "2"),
    )


def test_top_keeps_the_likeliest_labels(command, folder):
    [every] = objects(command("classify", folder, "the cat"))
    [two] = objects(command("classify", folder, "the cat", "-k", "2"))
    assert list(two["scores"].items()) == list(every["scores"].items())[:2]


def test_an_output_file_holds_what_would_be_printed(command, folder, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    printed = command("classify", folder, tmp_path / "a.txt").out
    out = tmp_path / "o.jsonl"
    outcome = command("classify", folder, tmp_path / "a.txt", "--out", out)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.endswith(f" a second; answers in {out}\n")
    assert out.read_text(encoding="utf-8") == printed


def test_json_is_valid_whatever_the_output_can_show(start, folder):
    process = start(["-m", "clozeworks", "classify", folder, "北京🙂"], PYTHONIOENCODING="ascii")
    out, _ = process.communicate(timeout=30)
    assert out.isascii() and json.loads(out)["text"] == "北京🙂"


def test_long_texts_of_all_pieces_are_counted(command, folder, tmp_path, monkeypatch):
    long = "the cat sat " * 300
    (tmp_path / "a.txt").write_text(f"{long}\nthe cat\n{long}\nthe dog\n", encoding="utf-8")
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 100)
    outcome = command("classify", folder, tmp_path / "a.txt")
    assert [each["windows"] > 1 for each in objects(outcome)] == [True, False, True, False]
    assert outcome.err.endswith(" a second; 2 needed more than one window\n")


def test_a_long_text_is_read_whole_and_fast(command, folder, tmp_path):
    (tmp_path / "a.txt").write_text("the cat sat on a mat " * 16_700 + "\n", encoding="utf-8")
    outcome = command("classify", folder, tmp_path / "a.txt")
    [found] = objects(outcome)
    assert found["windows"] > 200
    assert "; 1 needed more than one window" in outcome.err
    assert len(found["text"]) == 16_700 * 21


def test_bad_rows_are_refused_or_dropped_and_counted(
    command, refused, folder, tmp_path, monkeypatch
):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "the cat"}\n{"text": " "}\n{"text": "the dog"}\n', encoding="utf-8")
    outcome = command("classify", folder, path)
    assert outcome.code == 2
    assert [each["text"] for each in objects(outcome)] == ["the cat"]
    wrong = f"{path}, line 2: the text is empty; give it one"
    said = f"clozeworks: {wrong}, or drop the row with --skip-bad-rows.\n"
    assert outcome.err.endswith(said)
    outcome = command("classify", folder, path, "--skip-bad-rows")
    assert [each["text"] for each in objects(outcome)] == ["the cat", "the dog"]
    assert outcome.err.endswith(f" a second; 1 bad row dropped, the first: {wrong}\n")
    out = tmp_path / "o.jsonl"
    assert command("classify", folder, path, "-o", out).code == 2
    assert not list(tmp_path.glob("*o.jsonl*"))
    no_key = "Expecting property name enclosed in double quotes"
    cases = {
        "b.csv": (
            "text,n\na,1\nb\n",
            "row 3: there is 1 cell; the first row has 2; put quotation marks around a text with "
            "commas in it",
        ),
        "b.tsv": (
            "text\tn\na\tb\tc\n",
            "row 2: there are 3 cells; the first row has 2; take tabs and line ends out of the "
            "texts",
        ),
        "b.jsonl": (
            '{"text": 1}\n{"text": "a"}',
            "line 1: the text is a number; it must be a string; correct it",
        ),
        "c.jsonl": ("[]\n", "line 1: this is a list; it must be an object with a text; fix it"),
        "d.jsonl": (
            "{\n",
            f"line 1, character 2: this is not valid JSON ({no_key}); write one whole JSON object "
            "per line",
        ),
        "e.jsonl": (
            "9" * 5000,
            "line 1: a number is too long or the nesting too deep to read; write one whole JSON "
            "object per line",
        ),
    }
    dropping = "or drop the row with --skip-bad-rows."
    for name, (content, sentence) in cases.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        outcome = command("classify", folder, tmp_path / name, "--columns", "text=text")
        said = outcome.err.splitlines()[-1]
        assert said == f"clozeworks: {tmp_path / name}, {sentence}, {dropping}"
    piped(monkeypatch, "\n \n")
    refused(
        "standard input: no row is left, 2 were bad; the first: standard input, line 1: the text "
        "is empty; give it one.",
        *("classify", folder, "-", "--skip-bad-rows"),
    )


def test_sources_that_cannot_be_used(command, refused, folder, tmp_path, monkeypatch):
    (tmp_path / "a.doc").write_text("x", encoding="utf-8")
    (tmp_path / "a.csv").write_text("text;n\na;1\n", encoding="utf-8")
    (tmp_path / "b.tsv").write_text("", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text("\n", encoding="utf-8")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    refused(
        f"{tmp_path}/a.doc has the suffix '.doc'; classify reads .txt, .csv, .tsv, .jsonl, "
        ".json, .parquet, all but .parquet also with .gz, .bz2, .xz, .zst; say what it is with "
        "--format, such as --format txt, pipe its lines in with -, or convert it.",
        *("classify", folder, tmp_path / "a.doc"),
    )
    refused(
        "nothing.parquet does not exist; check the name and the folder, or, if it is meant as a "
        "text, pipe it in with -.",
        *("classify", folder, "nothing.parquet"),
    )
    refused(
        f"{tmp_path}/a.csv, row 1: this is one cell, 'text;n'; a comma separates cells; say what "
        "does with --separator ';'.",
        *("classify", folder, tmp_path / "a.csv"),
    )
    (tmp_path / "c.csv").write_text('text,n\na,1\n"b' + ",1\n" * 20, encoding="utf-8")
    refused(
        f"{tmp_path}/c.csv, row 3 has more than 30 characters; a row must fit in memory; check "
        "that each quotation mark is closed, read them as text with --quoting none, or raise "
        "--max-row-length.",
        *("classify", folder, tmp_path / "c.csv", "--max-row-length", "30"),
    )
    (tmp_path / "d.csv").write_text('text,n\n"b,1\n', encoding="utf-8")
    refused(
        f"{tmp_path}/d.csv, row 2: the quotation marks do not match (unexpected end of data); "
        'close each one, and write "" for one inside a text, or say --quoting none if they are '
        "part of the texts.",
        *("classify", folder, tmp_path / "d.csv"),
    )
    for name in ("b.tsv", "b.jsonl"):
        refused(
            f"{tmp_path / name} holds no rows; there must be at least one; check the file.",
            *("classify", folder, tmp_path / name),
        )
    refused(
        f"{tmp_path}/a.parquet is damaged or not a parquet file (Parquet file size is 4 bytes, "
        "smaller than the minimum file footer (8 bytes)); copy or download it again.",
        *("classify", folder, tmp_path / "a.parquet"),
    )
    empty = "has no rows; there must be at least one; check where it comes from."
    piped(monkeypatch, "")
    refused(f"standard input {empty}", "classify", folder, "-")
    (tmp_path / "b.csv").write_text("text,n\n", encoding="utf-8")
    outcome = command("classify", folder, tmp_path / "b.csv", "--columns", "text=1", "--header")
    assert outcome.err.endswith(f"\nclozeworks: {tmp_path / 'b.csv'} {empty}\n")


def test_options_without_effect_are_refused(refused, folder, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    refused(
        "--columns is 'text=1'; the input is a text, not a file; leave it out.",
        *("classify", folder, "the cat", "--columns", "text=1"),
    )
    refused(
        "--skip-bad-rows is set; the input is a text, not a file; leave it out.",
        *("classify", folder, "the cat", "--skip-bad-rows"),
    )
    refused(
        f"--columns is 'text=1'; each line of {tmp_path}/a.txt is a text; leave it out.",
        *("classify", folder, tmp_path / "a.txt", "--columns", "text=1"),
    )
    refused(
        "--header is set; standard input has no columns; leave it out.",
        *("classify", folder, "-", "--header"),
    )
    refused(
        "--no-json is set; the file of --out is JSON; leave one of the two out.",
        *("classify", folder, "the cat", "--no-json", "-o", tmp_path / "o.jsonl"),
    )
    refused("--top is 0; it must be at least 1.", "classify", folder, "the cat", "-k", "0")
    refused(
        "--batch-tokens is 0; it must be at least 1.",
        "classify",
        folder,
        "the cat",
        "--batch-tokens",
        "0",
    )


def test_models_that_cannot_classify(refused, tiny_models):
    bert = tiny_models["bert"]
    refused(
        f"{bert} cannot classify texts: it has no head for a task; use a checkpoint with such a "
        "head (…ForSequenceClassification), or train one with clozeworks finetune.",
        *("classify", bert, "the cat"),
    )

"""Answers when a person stops the work, and when it goes on."""

import pytest

import clozeworks as cw
from clozeworks.data import chunks
from clozeworks.language_model.model import LanguageModel
from clozeworks.tasks.classify import Classify


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    task = Classify(labels=("bad", "good"))
    place = tmp_path_factory.mktemp("classify") / "model"
    return cw.load(tiny_models["bert"]).for_task(task).save(place)


@pytest.fixture
def stops(monkeypatch):
    """Stops the work at a call of `predict`, counted from 1; two items are predicted at once."""
    ask = LanguageModel.predict

    def stop_at(calls, error=KeyboardInterrupt):
        made = []

        def stopped(self, items, *arguments, **options):
            made.append(len(items))
            if len(made) == calls:
                raise error
            return ask(self, items, *arguments, **options)

        monkeypatch.setattr(LanguageModel, "predict", stopped)
        return made

    monkeypatch.setattr(chunks, "CHUNK_ITEMS", 2)
    return stop_at


def test_who_stops_keeps_the_answers_beside_the_old_file(command, folder, tmp_path, stops):
    path, out, partial = (tmp_path / name for name in ("a.txt", "o.jsonl", "o.partial.jsonl"))
    path.write_text("the cat\n" * 9, encoding="utf-8")
    out.write_text("older", encoding="utf-8")
    stops(1)
    outcome = command("classify", folder, path, "--out", out, "--overwrite")
    assert outcome.code == 130 and out.read_text() == "older" and not partial.exists()
    assert outcome.err == "\nStopped. Nothing was left half-written.\n"
    stops(3)
    outcome = command("classify", folder, path, "--out", out, "--overwrite")
    assert outcome.code == 130 and out.read_text() == "older"
    assert len(partial.read_text().splitlines()) == 4
    assert outcome.err.startswith("\nStopped. 4 of about 9 texts in ")
    assert outcome.err.endswith(
        f" a second until then; answers in {partial}; the same command with --resume goes on "
        "there.\n"
    )


def test_who_goes_on_gets_the_file_of_one_run(command, folder, tmp_path, stops):
    path, out, partial = (tmp_path / name for name in ("a.txt", "o.jsonl", "o.partial.jsonl"))
    path.write_text("".join(f"the cat {number}\n" for number in range(9)), encoding="utf-8")
    stops(0)
    command("classify", folder, path, "--out", tmp_path / "whole.jsonl")
    stops(3)
    command("classify", folder, path, "--out", out)
    stops(3)  # the first call answers again what is there, to see that the model is the same
    outcome = command("classify", folder, path, "--out", out, "--resume")
    assert outcome.code == 130 and len(partial.read_text().splitlines()) == 6
    assert outcome.err.startswith("\nStopped. 6 of about 9 texts, 2 of them now, in ")
    made = stops(0)
    outcome = command("classify", folder, path, "--out", out, "--resume")
    assert outcome.code == 0 and made == [2, 2, 1]
    assert outcome.err.startswith("3 texts in ")
    assert outcome.err.endswith(f" a second; 6 were answered before; answers in {out}\n")
    assert out.read_text() == (tmp_path / "whole.jsonl").read_text()
    assert not partial.exists()


def test_going_on_is_refused_where_nothing_fits(command, refused, folder, tmp_path, stops):
    path, out, partial = (tmp_path / name for name in ("a.txt", "o.jsonl", "o.partial.jsonl"))
    path.write_text("the cat\n" * 9, encoding="utf-8")
    refused(
        "--resume is set; there is no file to go on with; name it with --out, or leave --resume "
        "out.",
        *("classify", folder, path, "--resume"),
    )
    refused(
        f"--resume is set; {partial} does not exist, so nothing was begun; leave it out.",
        *("classify", folder, path, "--out", out, "--resume"),
    )
    stops(3)
    command("classify", folder, path, "--out", out)
    other = tmp_path / "b.txt"
    other.write_text("the cat\n" * 9, encoding="utf-8")
    before = partial.read_text()
    refused(
        f"{partial}, result 1 is not about {other}, line 1; it was made from another input; give "
        "that one, or begin again without --resume.",
        *("classify", folder, other, "--out", out, "--resume"),
    )
    assert partial.read_text() == before and not out.exists()


def test_going_on_with_another_model_is_refused(
    command, refused, tiny_models, folder, tmp_path, stops
):
    path, out, partial = (tmp_path / name for name in ("a.txt", "o.jsonl", "o.partial.jsonl"))
    path.write_text("".join(f"the cat {number}\n" for number in range(9)), encoding="utf-8")
    task = Classify(labels=("bad", "good"))
    other = cw.load(tiny_models["bert"]).for_task(task, seed=1).save(tmp_path / "other")
    stops(3)
    command("classify", folder, path, "--out", out)
    before = partial.read_text()
    refused(
        f"{partial} does not hold what {other} answers; it was made with another model or other "
        "options; give those, or begin again without --resume.",
        *("classify", other, path, "--out", out, "--resume"),
    )
    assert partial.read_text() == before and not out.exists()
    assert command("classify", folder, path, "--out", out, "--resume").code == 0


def test_an_error_on_the_way_keeps_the_answers_before_it(command, folder, tmp_path, stops):
    path, out = tmp_path / "a.txt", tmp_path / "o.jsonl"
    path.write_text("the cat\n" * 5 + "\n", encoding="utf-8")
    outcome = command("classify", folder, path, "--out", out)
    assert outcome.code == 2 and not out.exists()
    assert len((tmp_path / "o.partial.jsonl").read_text().splitlines()) == 5
    assert outcome.err.startswith("5 texts in ")
    assert f"{path}, line 6: the text is empty; " in outcome.err

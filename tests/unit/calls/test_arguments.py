"""Messages that were written for commands name arguments where a program called."""

import sys
from types import SimpleNamespace

import pytest

from clozeworks.display.notebook import html_table, in_notebook
from clozeworks.display.training import TrainingProgress
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.language_model.arguments import as_arguments, in_python

RECORD = {"loss": {"loss": 5.0}, "tokens_per_second": 1000.0, "learning_rate": 1e-4}


@pytest.mark.parametrize(
    ("option", "argument"),
    [
        ("name it with --columns label=NAME.", 'name it with columns={"label": "NAME"}.'),
        ("say --columns text=1,label=2, or", 'say columns={"text": 1, "label": 2}, or'),
        ("leave --columns out.", "leave columns out."),
        ("drop them with --skip-bad-rows.", "drop them with skip_bad_rows=True."),
        ("or say --header (data.header=true in a recipe).", "or say header=True."),
        ("with --overwrite (overwrite=True in Python).", "with overwrite=True."),
        ("it looks like csv: say --format csv", 'it looks like csv: say format="csv"'),
        ("say it with --encoding.", "say it with encoding."),
        ("taken off; --quoting none keeps them.", 'taken off; quoting="none" keeps them.'),
        ("raise --max-row-length.", "raise max_row_length."),
        ("measured with --task compare.", 'measured with task="compare".'),
        ("Convert it: clozeworks convert a --out b", "Convert it: clozeworks convert a --out b"),
    ],
)  # fmt: skip
def test_options_become_arguments(option, argument):
    assert as_arguments(option) == argument


def test_how_files_are_read_may_be_one_argument():
    assert as_arguments("say --format csv", file_format=True) == (
        'say file_format=cw.FileFormat(format="csv")'
    )
    assert as_arguments("with --encoding.", file_format=True) == (
        "with file_format=cw.FileFormat(encoding=…)."
    )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (SettingError("training.learning_rate", 0, "`training.steps` is 1", "leave --columns out"),
         "lr is 0; training.steps is 1; leave columns out."),
        (UnknownName("--columns for tag", "a", ["b"]), "columns for tag is 'a'; known: b."),
        (InputError("raise data.dev_fraction, or say --header."),
         "raise dev_fraction, or say header=True."),
    ],
)  # fmt: skip
def test_errors_name_arguments(error, sentence):
    names = {"training.learning_rate": "lr", "data.dev_fraction": "dev_fraction"}
    with pytest.raises(type(error)) as caught, in_python(names):
        raise error
    assert str(caught.value) == sentence


@pytest.fixture
def notebook(monkeypatch):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))


def test_a_notebook_shows_one_line_that_is_renewed(notebook, capsys):
    assert in_notebook()
    with TrainingProgress() as progress:
        progress.on_train_begin(2)
        progress.on_log(1, RECORD)
        progress.on_log(2, RECORD)
        progress.on_message("Done.")
    shown = capsys.readouterr()
    assert shown.err == "" and "\x1b" not in shown.out
    first, blank, second, *_ = shown.out.split("\r")
    assert first.startswith("step 1 of 2") and second.startswith("step 2 of 2")
    assert blank == " " * len(first) and shown.out.endswith("\rDone.\n")


def test_elsewhere_nothing_is_renewed(capsys):
    assert not in_notebook()
    with TrainingProgress() as progress:
        progress.on_message("Done.")
    assert capsys.readouterr() == ("", "Done.\n")


def test_tables_show_what_is_in_them():
    assert html_table("<a>", {"b&": "c\x1b"}) == (
        "<table><caption>&lt;a&gt;</caption><tr><th style='text-align:left'>b&amp;</th>"
        "<td style='text-align:left'>c\\x1b</td></tr></table>"
    )

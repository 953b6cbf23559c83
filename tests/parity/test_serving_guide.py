"""The lines of the guide that clients of others are asked with work, with their own packages."""

import re
from pathlib import Path

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.tasks.classify import Classify

pytestmark = pytest.mark.parity
GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
ROW = re.compile(r'^\| [\w-]+ \| `(\w[\w.]*\(.*"http://127\.0\.0\.1:8000.*)` \|$', re.MULTILINE)
# Each line is an expression; the modules are those before the first name with a capital letter, and
# a package of which more is needed than what it imports itself.
RUN = """
import importlib

for number, line in enumerate(asked["written"]):
    names = {}
    parts = line.partition("(")[0].split(".")
    for count in range(1, len(parts)):
        try:
            importlib.import_module(".".join(parts[:count]))
        except ImportError:
            break
    exec(f"import {parts[0]}", names)
    value = eval(line, names)
    data = getattr(value, "data", None)
    found[number] = data[0].embedding if hasattr(data and data[0], "embedding") else (
        value if isinstance(value, list) and isinstance(value[0], float) else repr(value)
    )
"""


def lines(folder):
    return ROW.findall((folder / "serving.md").read_text(encoding="utf-8"))


def test_both_languages_have_the_same_lines():
    assert lines(GUIDES) == lines(GUIDES / "zh") and len(lines(GUIDES)) == 8


def test_every_line_is_answered(clients, tiny_models, writers, serving):
    minilm = cw.load(tiny_models["bert"])
    models = {
        "spam": cw.load(tiny_models["bert"]).for_task(Classify(labels=("ham", "spam"))),
        "minilm": minilm,
        "stories": cw.load(writers["gpt2"]),
    }
    with serving(models) as url:
        several = [each.replace("http://127.0.0.1:8000", url) for each in lines(GUIDES)]
        found = clients(RUN, written=several)
    assert len(found) == len(several)
    vectors = [found[str(number)] for number, line in enumerate(several) if '"minilm"' in line]
    assert len(vectors) == 3
    expected = minilm.embed("a text", normalize=True)
    for vector in vectors:  # those of TEI have length 1
        assert np.array(vector) / np.linalg.norm(vector) == pytest.approx(expected, abs=1e-6)
    told = " ".join(each for each in found.values() if isinstance(each, str))
    assert "relevance_score" in told and "label='spam'" in told

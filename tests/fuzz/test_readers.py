"""A few damaged inputs for every reader; `readers.py` tries as many as there is time for."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as for a script

from damage import Reader, fuzz, is_sentence
from readers import GROUPS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
# What starts commands and renders templates takes long.
COUNTS = {"argument_readers": 2, "template_readers": 5, "checkpoint_readers": 8}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_damaged_inputs_are_refused_in_a_sentence(group, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "made").mkdir()
    for number, (name, reader) in enumerate(group(tmp_path / "made")):
        folder = tmp_path / f"input-{number}"
        folder.mkdir()
        reader.seconds = 60.0  # what is slow depends on the machine
        rng = random.Random(number)
        found = fuzz(reader, folder, rng, COUNTS.get(group.__name__, 20), float("inf"))
        assert found.found == {}, name
        assert found.tried


def test_findings_are_noticed(tmp_path):
    def read(folder):
        text = (folder / "a.json").read_text(encoding="utf-8", errors="replace")
        if "{" not in text:
            raise KeyError("an error that is not a sentence")

    reader = Reader({"a.json": b'{"a": [1, 2], "b": {"c": 0.5}}'}, read)
    found = fuzz(reader, tmp_path, random.Random(0), 300, float("inf"))
    assert [key.partition(" at ")[0] for key in found.found] == ["KeyError"]
    assert not is_sentence("no full stop") and is_sentence("A sentence.")

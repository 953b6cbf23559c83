"""A family is one file: put it beside the others and everything works."""

from pathlib import Path

import numpy as np
import pytest
import torch

import clozeworks as cw
import clozeworks.families
from clozeworks import registry
from clozeworks.cli.main import run
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layout import Layout

ADDED = Path(__file__).parent / "added_family"


@pytest.fixture
def added(monkeypatch):
    """Lays the folder beside the package's own families, as if the file stood among them."""
    paths = [*clozeworks.families.__path__, str(ADDED)]
    monkeypatch.setattr(clozeworks.families, "__path__", paths)
    registry.files.cache_clear()
    yield
    registry.files.cache_clear()


@pytest.fixture
def tokenizer(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the river is flowing\nthe town is near the river\n" * 20)
    return cw.train_tokenizer([text], kind="wordpiece", size=60)


def test_one_file_is_a_family(added, tokenizer, tmp_path, capsys):
    model = cw.new("turned-tiny", tokenizer, depth=3)
    assert Blueprint.from_json(model.blueprint.to_json()) == model.blueprint
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.report.lines() == [f"{len(model.model.state_dict()) - 1} weights loaded"]
    assert again.blueprint == model.blueprint
    filled, expected = (which.fill("the [MASK] is flowing") for which in (again, model))
    assert [guess.word for guess in filled.gaps[0]] == [guess.word for guess in expected.gaps[0]]
    assert filled.gaps[0][0].score == pytest.approx(expected.gaps[0][0].score, rel=1e-5)
    texts = ["the river", "the town is near the river", "flowing"]
    together = again.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.abs(again.embed(text) - vector).max() <= 1e-6
    assert run(["show", str(tmp_path / "model")]) == 0
    shown = capsys.readouterr().out
    assert "positions: Turned" in shown and "Su et al. 2021" in shown


def test_its_positions_reach_attention(added, tokenizer):
    """Order matters; the same text one place later gives the same relations."""
    model = cw.new("turned-tiny", tokenizer).model
    ids = torch.tensor([7, 8, 9, 10])
    hidden = model(ids, Layout([4]))
    turned = model(ids.flip(0), Layout([4])).flip(0)
    assert (hidden - turned).abs().max() > 1e-3


def test_without_the_file_the_family_is_unknown(tokenizer):
    with pytest.raises(cw.ClozeworksError, match="size is 'turned-tiny'; known: "):
        cw.new("turned-tiny", tokenizer)

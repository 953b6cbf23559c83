"""Rules about the code itself that no linter knows."""

import ast
import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import clozeworks
from clozeworks import registry
from clozeworks.core.attention.masks import MaskSpec
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layers.sublayer import PartSpec, SublayerSpec
from clozeworks.core.positions import InputPositionSpec, PositionSpec
from clozeworks.data.examples import ExamplesSpec
from clozeworks.engine.optimizers import OptimizerSpec
from clozeworks.engine.schedules import ScheduleSpec
from clozeworks.objectives.objective import Objective

SOURCE = Path(clozeworks.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).resolve().parents[1]
SLOTS = [
    ExamplesSpec,
    HeadSpec,
    InputPositionSpec,
    NormSpec,
    Objective,
    OptimizerSpec,
    PartSpec,
    PositionSpec,
    ScheduleSpec,
    MaskSpec,
    SublayerSpec,
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_are_small_and_say_what_they_are(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 800
    assert ast.get_docstring(ast.parse(text)), "a file begins by saying what it is"
    assert path.stem not in {"utils", "helpers", "common", "misc", "base"}


def test_files_of_tests_are_small_too():
    long = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
    ]
    assert not long


@pytest.mark.parametrize("slot", SLOTS, ids=lambda slot: slot.__name__)
def test_specs_are_small_frozen_and_name_their_paper(slot):
    found = registry.specs(slot).values()
    for spec in (spec for spec in found if spec.__module__.startswith("clozeworks.")):
        assert len(dataclasses.fields(spec)) <= 10, "do two concepts live in one class?"
        assert spec.__dataclass_params__.frozen
        assert spec.paper, f"{spec.__name__} names no paper"


def test_core_files_with_tensors_have_a_legend_of_shapes():
    for path in (SOURCE / "core").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "def forward(" in text or path.stem in {"attend", "layout", "pooling"}:
            assert "Shapes:" in (ast.get_docstring(ast.parse(text)) or ""), path.name


def test_few_public_names():
    assert len(clozeworks.__all__) <= 26
    for name in clozeworks.__all__:
        thing = getattr(clozeworks, name)
        assert isinstance(thing, str) or inspect.getdoc(thing), f"{name} has no docstring"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        clozeworks.nothing  # noqa: B018


def test_help_and_import_bring_no_heavy_library():
    code = """
import sys, clozeworks
from clozeworks.cli.main import run

def check(*heavy):
    if imported := {*heavy} & {*sys.modules}:
        sys.exit(f"imported {imported}")

run(["--help"])
check("torch", "numpy", "tokenizers", "rich", "cyclopts", "huggingface_hub")
clozeworks.load
check("scipy", "sklearn", "matplotlib", "huggingface_hub", "rich", "torch._dynamo")
"""
    environment = {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"clozeworks COMMAND" in done.stdout

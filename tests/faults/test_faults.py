"""Every listed fault can be planted: its lines stand exactly once in the source."""

import ast
import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
AREAS = "checkpoints cli compress core data engine families generate inference jobs language_model"
AREAS += " objectives runs runtime search storage tasks text"


def module(name):
    """A script of this folder, which is no package."""
    found = importlib.util.spec_from_file_location(f"faults_{name}", HERE / f"{name}.py")
    made = importlib.util.module_from_spec(found)
    sys.modules[found.name] = made
    found.loader.exec_module(made)
    return made


FAULTS = list(module("plant").faults())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault):
    assert fault.problem(SOURCE) == ""
    planted = (SOURCE / "clozeworks" / fault.file).read_text().replace(fault.old, fault.new)
    assert fault.old != fault.new
    ast.parse(planted)


def test_faults_have_names_of_their_own_and_every_area_has_some():
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    missing = set(AREAS.split()) - {fault.file.split("/")[0] for fault in FAULTS}
    assert not missing
    assert len(FAULTS) >= 119


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text-to-text", "embed", "pretrain"])
def test_a_few_commands_end_well_whenever_they_are_interrupted(kind, tmp_path):
    interrupts = module("interrupts")
    interrupts.prepare(tmp_path)
    with interrupts.busy(2):
        ends = list(interrupts.interrupt(kind, tmp_path, times=8))
    assert [each for each in ends if each["verdict"] not in interrupts.FINE] == []

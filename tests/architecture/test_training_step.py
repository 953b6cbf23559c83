"""How many files somebody has to open to follow one training step."""

import shutil
import sys
import threading
from pathlib import Path

import clozeworks as cw

SOURCE = str(Path(cw.__file__).parent)
MOST_FILES = 41


class StepTracer(cw.Callback):
    """Collects the files of the package whose code runs in one step, on any thread of the step."""

    def __init__(self, step):
        self.step, self.tracing, self.files = step, False, set()

    def on_step(self, step, result):
        self.tracing = step == self.step - 1

    def trace(self, frame, event, argument):
        path = frame.f_code.co_filename
        ahead = threading.current_thread().name.startswith("loader")  # at work on later steps
        if self.tracing and event == "call" and path.startswith(SOURCE) and not ahead:
            self.files.add(path.removeprefix(SOURCE).lstrip("/"))


def test_a_training_step_of_bert_runs_through_few_files(small_corpus, tmp_path):
    """Forward, backward, update and callbacks, after some steps in which caches were filled."""
    corpus = shutil.copytree(small_corpus, tmp_path / "corpus")
    recipe = {
        "run": str(tmp_path / "run"),
        "model": {"start": "bert-tiny"},
        "data": {"corpus": str(corpus), "stages": [{"length": 24, "fraction": 1.0}]},
        "objective": "bert",
        "training": {"steps": 6, "batch_tokens": 128},
        "evaluation": {"every_steps": 0, "tokens": 256},
    }
    tracer = StepTracer(4)
    threading.setprofile(tracer.trace)
    sys.setprofile(tracer.trace)
    try:
        cw.pretrain(recipe, callbacks=[tracer])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert {"core/model.py", "engine/trainer.py", "objectives/masked_lm.py"} <= tracer.files
    assert len(tracer.files) <= MOST_FILES, sorted(tracer.files)

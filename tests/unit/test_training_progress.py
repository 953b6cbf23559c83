"""Progress never ends a run."""

import sys

from clozeworks.display.training import TrainingProgress

RECORD = {
    "masked_lm": {"loss": 5.0, "accuracy": 0.2},
    "tokens_per_second": 1000.0,
    "share_of_peak": 0.5,
    "learning_rate": 1e-4,
}


class Gone:
    """A pipe whose reader has left."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_has_left_does_no_harm(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Gone())
    with TrainingProgress() as progress:
        progress.on_train_begin(10)
        progress.on_message("A sentence.")
        progress.on_log(1, RECORD)
        progress.on_evaluate(1, {"evaluation": {"masked_lm": RECORD["masked_lm"]}})


def test_a_line_says_how_far_and_how_fast(capsys):
    with TrainingProgress(every=0.0) as progress:
        progress.on_train_begin(10)
        progress.on_log(1, RECORD)
        progress.on_log(2, RECORD)
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "step 1 of 10 (10%): masked_lm 5.000 (20.0% right), 1,000 tokens/s, rate 1.00e-04"
    )
    assert second.startswith("step 2 of 10 (20%, ") and " left): masked_lm" in second

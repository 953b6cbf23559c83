"""Errors meant for the person who runs the program.

Every message says where, what, and what to do: *Where* is *value*; *rule*; *what to do.*
Commands print the sentence and exit with code 2; nobody sees a traceback for a mistake they can
fix themselves.
"""

import errno
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class ClozeworksError(Exception):
    """Anything the user can cause and can fix."""


# What is longer is cut in messages, and no number is written that takes long to write.
_SHOWN, _HUGE = 500, 10**100


class Stated(str):
    """A value in words, such as "missing": messages show it without quotes."""


MISSING, SET = Stated("missing"), Stated("set")


class SettingError(ClozeworksError, ValueError):
    """A setting has a value that it may not have.

    The sentence is made here: *setting* is *value*; *rule*; *advice*. If several settings are
    involved, `setting` is the one to change, and the rule states the others, each in backticks:
    "it must be divisible by `heads`, 3". Commands replace these names by their options.
    """

    setting: str = ""
    """The name of the setting, relative to the class that checks it. `config` adds the path of the
    table that it was read from."""
    value: Any = None
    """Its value, as it is; a `Stated` one is shown without quotes."""
    rule: str = ""
    """What it must be instead, or why it cannot be."""
    advice: str = ""
    """What to do, if the rule does not say so."""

    def __init__(self, setting: str, value: Any, rule: str, advice: str = "") -> None:
        # Trap: an error is pickled as its class and `args`; so the sentence is made in `__str__`.
        super().__init__(setting, value, rule, advice)
        self.setting, self.value, self.rule, self.advice = setting, value, rule, advice

    def __str__(self) -> str:
        if not self.setting:  # a sentence, as another process told it
            return str(self.args[0])
        parts = (f"{self.setting} is {shown(self.value)}", self.rule, self.advice)
        sentence = "; ".join(part for part in parts if part)
        return sentence if sentence.endswith("?") else sentence + "."

    def within(self, path: str) -> "SettingError":
        """The same error for a setting of the table `path`."""
        if not self.setting or not path:
            return self
        return SettingError(f"{path}.{self.setting}", self.value, self.rule, self.advice)

    def respelled(self, spell: Callable[[str], str]) -> "SettingError":
        """The same error with every name of a setting spelled another way, such as an option."""
        if not self.setting:
            return self

        def names(text: str) -> str:
            return re.sub(r"`([^`]+)`", lambda match: spell(match[1]), text)

        return SettingError(spell(self.setting), self.value, names(self.rule), names(self.advice))


def shown(value: Any) -> str:
    """A value as messages show it: strings quoted, numbers with commas, nothing as "empty"."""
    if isinstance(value, Stated):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < _HUGE else "a number of more than 100 digits"
    if isinstance(value, list | tuple):
        text = f"[{', '.join(map(shown, value[:_SHOWN]))}]" if value else "empty"
    else:
        try:
            text = repr(value)
        except (ValueError, RecursionError):  # a number too long to write, or a table too deep
            text = "too long to show"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant: a slip away from it, not another word."""
    distances = {candidate: _slips(name, candidate) for candidate in known}
    near = {candidate: slips for candidate, slips in distances.items() if slips is not None}
    return min(
        near, key=lambda candidate: (near[candidate], -len(candidate), candidate), default=None
    )


def _slips(typed: str, known: str) -> int | None:
    """How many slips of the fingers lie between two names; None where they are different words.

    Case and punctuation do not count. Numbers do: `qwen3` is not a misspelled `qwen2`. Nobody
    mistypes the first letter, except for the second: `ibert` is not a misspelled `bert`.
    """
    if len(typed) > 2 * len(known) + 10:
        return None
    left, right = (re.sub(r"[\W_]", "", name.casefold()) for name in (typed, known))
    same_numbers = re.findall(r"\d+", left) == re.findall(r"\d+", right)
    same_start = left[:1] == right[:1] or left[:2] == right[1::-1]
    if not (same_numbers and same_start and left):
        return None
    longest = max(len(left), len(right))
    slips = _edits(left, right)
    if slips <= max(1, longest // 4):
        return slips
    # An abbreviation of the name, or the name with an ending (`dropped`), which is not a compound.
    is_abbreviation = right.startswith(left) and len(left) > 2
    has_ending = left.startswith(right) and longest < 2 * len(right)
    return longest if is_abbreviation or has_ending else None


def _edits(left: str, right: str) -> int:
    """Letters left out, added, changed, or swapped with the next; of few letters, each counts."""
    # In a short word another letter makes another word: max is not mix.
    changed = 1 if max(len(left), len(right)) > 3 else 2
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, letter in enumerate(left):
        earlier, before, row = before, row, [i + 1]
        for j, other in enumerate(right):
            best = min(before[j + 1] + 1, row[j] + 1, before[j] + changed * (letter != other))
            if i and j and letter == right[j - 1] and left[i - 1] == other:
                best = min(best, earlier[j - 1] + 1)
            row.append(best)
    return row[-1]


class UnknownName(ClozeworksError, LookupError):  # noqa: N818 (the name is the sentence)
    """A name that no file, part or published size answers to.

    `propose` is what was meant, where that is known; False for a name that is known to be right,
    and to mean something else.
    """

    def __init__(
        self, what: str, name: str, known: Iterable[str], propose: bool | str = True
    ) -> None:
        super().__init__(what, name, tuple(known), propose)

    def respelled(self, spell: Callable[[str], str]) -> "UnknownName":
        """The same error with the name of a setting spelled another way, such as an option."""
        if len(self.args) == 1:
            return self
        what, *rest = self.args
        return UnknownName(spell(what), *rest)

    def __str__(self) -> str:
        if len(self.args) == 1:  # a sentence, as another process told it
            return str(self.args[0])
        what, name, known, propose = self.args
        names = sorted(known)
        near = propose if isinstance(propose, str) else propose and _meant(name, names)
        hint = f" Did you mean {near!r}?" if near else ""
        return f"{what} is {shown(name)}; known: {', '.join(names)}.{hint}"


# What other libraries call it, and what it is called here, where there is such a name.
_ELSEWHERE = {
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "output_dir": "out",
    "eval_dataset": "dev",
    "validation": "dev",
    "train_dataset": "data",
    "train": "data",
    "per_device_train_batch_size": "batch_size",
    "report_to": "trackers",
    "tensorboard": "trackers",
    "warmup_ratio": "warmup_fraction",
    "lr_scheduler_type": "schedule",
    "optim": "optimizer",
    "early_stopping_patience": "patience",
    "metric_for_best_model": "metric",
    "batch_size": "batch_tokens",
    "show_progress_bar": "progress",
    "normalize_embeddings": "normalize",
    "prompt_name": "prompt",
    "do_sample": "sample",
    "max_length": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "typical_p": "typical",
    "stop_strings": "stop",
    "avg": "mean",
    "cls": "first",
}


def _meant(name: str, known: Sequence[str]) -> str | None:
    """The known name that somebody meant: as another library has it, or a slip away."""
    here = _ELSEWHERE.get(name)
    return here if here in known else nearest(name, known)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says, in the words of one of the libraries, that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError):
        return True
    words = str(error).lower()
    kinds = RuntimeError, ImportError
    return isinstance(error, kinds) and any(each in words for each in _OUT_OF_MEMORY)


# torch on a CPU and on a GPU, oneDNN, C++, threads and libraries for which there is no room.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "could not create a primitive",
    "could not create a memory",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
)


class InputError(ClozeworksError, ValueError):
    """A text, or a file of texts, that cannot be used as it is."""


class CheckpointError(ClozeworksError):
    """A model folder that is incomplete, damaged or contradicts itself."""


class UnfinishedRun(CheckpointError):  # noqa: N818
    """The model of a run that has not come to its end.

    Attributes:
        model: The folder that is not there.
        run: The folder of the run.
    """

    def __init__(self, model: str, run: str, advice: str | None = None) -> None:
        self.model, self.run = model, run
        advice = advice or "run the command it was begun with again."
        super().__init__(f"{model} is not there; the run {run} has not come to its end; {advice}")


class TokenizerError(CheckpointError):
    """Tokenizer files that are missing, damaged or do not belong to the model."""


class OutputError(ClozeworksError, OSError):
    """A place that cannot be written, or that already holds something."""


class HubError(ClozeworksError):
    """A model name that could not be fetched from the hub."""


class UnsupportedError(ClozeworksError):
    """Something this checkpoint cannot do; the message says what would make it work."""


class MissingExtra(ClozeworksError, ImportError):  # noqa: N818
    """An optional library is needed for what was asked."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the library {library!r}, which is not installed; "
            f"install it with: pip install 'clozeworks[{extra}]'."
        )

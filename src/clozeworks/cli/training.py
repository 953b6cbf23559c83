"""Options of the commands that train: short forms of settings, and where to compute."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Parameter

from clozeworks.cli.inputs import option_name
from clozeworks.errors import SettingError, Stated, UnknownName

# What stands for a setting of another name, or of no table.
_OTHER_FORMS = {
    "lr": "training.learning_rate",
    "dtype": "training.precision",
    "device": "device",
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Settings of a recipe that have an option of their own.

    Attributes:
        steps: Updates of the weights; short for training.steps=….
        learning_rate: The peak learning rate; short for training.learning_rate=….
        batch_size: Examples of a step; short for training.batch_size=….
        batch_tokens: Tokens of a step, instead of examples; short for training.batch_tokens=….
        device: cpu, cuda, cuda:1 (the second GPU), mps (Apple), or auto for the best one that is
            available. If not given, as the recipe says, or else auto.
        dtype: The number type to compute in: float32, or bfloat16 for accelerators; auto leaves it
            to the recipe.
    """

    steps: int | None = None
    learning_rate: Annotated[float | None, Parameter(name=("--learning-rate", "--lr"))] = None
    batch_size: int | None = None
    batch_tokens: int | None = None
    device: Annotated[str | None, Parameter(alias="-d")] = None
    dtype: Literal["auto", "float32", "bfloat16"] | None = None

    @classmethod
    def forms(cls) -> dict[str, str]:
        """The settings that options, and short forms of changes, stand for: `lr`, `epochs`."""
        return {field.name: f"training.{field.name}" for field in fields(cls)} | _OTHER_FORMS

    def given(self) -> dict[str, str]:
        """What is given, as it is typed, by short form."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: f"{value:g}" if isinstance(value, float) else str(value)
            for name, value in values.items()
            if value is not None and (name, value) != ("dtype", "auto")
        }

    def words(self) -> list[str]:
        """The same, as they are typed."""
        return [word for name, value in self.given().items() for word in (option_name(name), value)]

    def changes(self, words: Sequence[str]) -> list[str]:
        """The changes of settings that words and these options ask for, with their whole paths.

        Args:
            words: Changes such as `training.steps=5`; short forms are understood, too.

        Raises:
            SettingError: If an option and a word say the same.
        """
        forms = self.forms()
        long = {long_form(word, forms): word for word in words}
        given = {f"{forms[name]}={value}": name for name, value in self.given().items()}
        said = {change.partition("=")[0]: word for change, word in long.items()}
        for change, name in given.items():
            path, _, value = change.partition("=")
            if path in said:
                rule, advice = f"{said[path]} says it, too", "leave one of the two out"
                raise SettingError(option_name(name), Stated(value), rule, advice)
        return [*long, *given]

    def spelled(self) -> dict[str, str]:
        """The options of those settings that are given by one."""
        forms = self.forms()
        paths = {forms[name]: option_name(name) for name in self.given()}
        # A rule names its neighbours in the same table without the path.
        return {**{path.rpartition(".")[2]: option for path, option in paths.items()}, **paths}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(TrainingOptions):
    """The same for fine-tuning, which counts epochs.

    Attributes:
        epochs: How often every item is seen; short for training.epochs=….
    """

    epochs: float | None = None


def long_form(change: str, forms: Mapping[str, str]) -> str:
    """A change of a setting with its whole path: `training.epochs=5` for `epochs=5`."""
    name, sign, value = change.partition("=")
    return f"{forms.get(name, name)}={value}" if sign else change


@contextmanager
def respelled(options: Mapping[str, str]) -> Iterator[None]:
    """Names settings in errors by their options, where they have one."""
    try:
        yield
    except (SettingError, UnknownName) as error:
        raise error.respelled(lambda name: options.get(name, name)) from error.__cause__

"""The models that a server holds, by name, and what each can do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.errors import ClozeworksError, nearest
from clozeworks.language_model import LanguageModel
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.embed.task import Embed
from clozeworks.tasks.rerank.task import Rerank
from clozeworks.tasks.task import command_name, task_classes
from clozeworks.wording import counted

EMBED, FILL, GENERATE, SCORE, SEARCH = "embed", "fill", "generate", "score", "search"
COMPARE, RERANK = Compare.item_type.command, Rerank.item_type.command


class UnknownModel(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """No model of this name is served, or none that can do what is asked."""


class SearchIndex(Protocol):
    """Documents that are found by a query."""

    @property
    def folder(self) -> Any:
        """Where it is."""

    def __len__(self) -> int:
        """How many documents it holds."""

    def search(self, query: Any, **options: Any) -> Any:
        """The documents that fit best."""


@dataclass(eq=False)
class ServedModel:
    """A model with its name, or an index."""

    name: str
    model: LanguageModel | None = None
    index: SearchIndex | None = None
    unloadable: str = ""
    """Why it could not be loaded; empty if it was."""
    truncate_dims: tuple[int, ...] = field(default=())
    """Widths that its vectors may be cut to."""

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """What it can be asked, by the names of commands."""
        if self.index is not None:
            return (SEARCH,)
        if self.model is None:
            return ()
        found = list(self.tasks)
        if COMPARE in found and RERANK not in found:  # by the probability of its last label
            found.append(RERANK)
        blueprint = self.model.blueprint
        has_words = "vocabulary" in blueprint.heads
        can_write = blueprint.can_generate and has_words
        if self.model.task is None and has_words and self.model.tokenizer.mask_id is not None:
            found.append(FILL)
        if can_write:
            found += [GENERATE, SCORE]
        return tuple(found)

    @cached_property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks that its head can do, by the names of their commands."""
        assert self.model is not None
        found: dict[str, AnyTask] = {}
        own = self.model.task
        for kind, task in task_classes().items():
            # Vectors of a model that was taught something else are not what it is served for.
            if issubclass(task, Embed) and own is not None and not self.model.pooling.stated:
                continue
            try:
                found[command_name(kind)] = self.model.task_for(task)
            except ClozeworksError:
                continue
        return found

    def language_model(self) -> LanguageModel:
        """The model; an index has none to ask."""
        if self.model is None:
            raise UnknownModel(f"{self.name} is an index; ask it with /v1/search.")
        return self.model


class ServedModels:
    """All models of a server."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {each.name: each for each in models}

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._models.values())

    def __len__(self) -> int:
        return len(self._models)

    def able(self, ability: str) -> list[ServedModel]:
        """The models that can do something."""
        return [each for each in self if ability in each.abilities]

    def find(self, name: str | None, ability: str | None = None) -> ServedModel:
        """The model that is meant.

        Args:
            name: Its name; the only one that can do it if None.
            ability: What it must be able to do.

        Raises:
            UnknownModel: If there is none, or several and none is named.
        """
        if name is None:
            able = list(self) if ability is None else self.able(ability)
            able = [each for each in able if not each.unloadable]
            if len(able) == 1:
                return able[0]
            what = "is served" if ability is None else f"can {ability}"
            if not able:
                raise UnknownModel(f"no model here {what}; this server has {self._listed()}.")
            names = ", ".join(each.name for each in able)
            raise UnknownModel(f"model is missing; {names} could be meant; name one of them.")
        model = self._models.get(name)
        if model is None:
            near = nearest(name, self._models)
            hint = f" Did you mean {near!r}?" if near else ""
            raise UnknownModel(f"model is {name!r}; this server has {self._listed()}.{hint}")
        if model.unloadable:
            raise UnknownModel(f"{name} could not be loaded: {model.unloadable}")
        if ability is not None and ability not in model.abilities:
            others = ", ".join(each.name for each in self.able(ability))
            able_ones = f"; {others} can" if others else ""
            raise UnknownModel(
                f"{name} cannot {ability}: it can {', '.join(model.abilities)}{able_ones}."
            )
        return model

    def _listed(self) -> str:
        if not self._models:
            return "no models"
        return f"{counted(len(self._models), 'model')}: {', '.join(self._models)}"

"""The models that a server holds, by name, and what each can do."""

from collections.abc import Iterator, Mapping, Sequence
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


class ServedModel:
    """A model with its name, or an index.

    Args:
        name: Its name.
        model: The model, or
        index: the index.
        unloadable: Why it could not be loaded; empty if it was.
        truncate_dims: Widths that its vectors may be cut to.
    """

    def __init__(
        self,
        name: str,
        model: LanguageModel | None = None,
        index: SearchIndex | None = None,
        unloadable: str = "",
        truncate_dims: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self._model, self._index, self._unloadable = model, index, unloadable
        self._truncate_dims = truncate_dims

    @property
    def model(self) -> LanguageModel | None:
        """The model, ready to compute; None for an index and for what could not be loaded."""
        return self._model

    @property
    def outline(self) -> LanguageModel | None:
        """The model to be described, perhaps without its weights; None where `model` is None."""
        return self._model

    @property
    def index(self) -> SearchIndex | None:
        """The index; None for a model."""
        return self._index

    @property
    def truncate_dims(self) -> tuple[int, ...]:
        """Widths that its vectors may be cut to."""
        return self._truncate_dims

    @property
    def unloadable(self) -> str:
        """Why it could not be loaded, as far as that was tried; empty if it was."""
        return self._unloadable

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """What it can be asked, by the names of commands."""
        if self.index is not None:
            return (SEARCH,)
        model = self.outline
        if model is None:
            return ()
        found = list(self.tasks)
        if COMPARE in found and RERANK not in found:  # by the probability of its last label
            found.append(RERANK)
        blueprint = model.blueprint
        has_words = "vocabulary" in blueprint.heads
        can_write = blueprint.can_generate and has_words
        has_mask = model.has_tokenizer and model.tokenizer.mask_id is not None
        if model.task is None and has_words and has_mask:
            found.append(FILL)
        if can_write:
            found += [GENERATE, SCORE]
        return tuple(found)

    @cached_property
    def tasks(self) -> Mapping[str, AnyTask]:
        """The tasks that its head can do, by the names of their commands."""
        model = self.outline
        assert model is not None
        found: dict[str, AnyTask] = {}
        own = model.task
        for kind, task in task_classes().items():
            # Vectors of a model that was taught something else are not what it is served for.
            if issubclass(task, Embed) and own is not None and not model.pooling.stated:
                continue
            try:
                found[command_name(kind)] = model.task_for(task)
            except ClozeworksError:
                continue
        return found

    def language_model(self) -> LanguageModel:
        """The model, ready to compute.

        Raises:
            UnknownModel: If it is an index, which has none to ask, or cannot be loaded.
        """
        model = self.model
        if self.unloadable:
            raise UnknownModel(f"{self.name} could not be loaded: {self.unloadable}")
        if model is None:
            raise UnknownModel(f"{self.name} is an index; ask it with /v1/search.")
        return model


class ServedModels:
    """All models of a server."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        self._models = {each.name: each for each in models}

    def add(self, model: ServedModel) -> None:
        """Serves one more, unless one of its name is served; nobody is disturbed."""
        self._models = self._models | {model.name: self._models.get(model.name, model)}

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
        able_to = model.abilities  # before: what is read when it is first asked is read now
        if model.unloadable:
            raise UnknownModel(f"{name} could not be loaded: {model.unloadable}")
        if ability is not None and ability not in able_to:
            others = ", ".join(each.name for each in self.able(ability))
            able_ones = f"; {others} can" if others else ""
            raise UnknownModel(f"{name} cannot {ability}: it can {', '.join(able_to)}{able_ones}.")
        return model

    def _listed(self) -> str:
        if not self._models:
            return "no models"
        return f"{counted(len(self._models), 'model')}: {', '.join(self._models)}"

"""Models that are read when they are first asked, and let go when others need their memory."""

from functools import cached_property
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from clozeworks.errors import ClozeworksError
from clozeworks.jobs.search.index import Index
from clozeworks.language_model import LanguageModel, load, outline
from clozeworks.runtime.memory import available
from clozeworks.search.state import is_index
from clozeworks.serve.loading import bytes_of, stated_widths
from clozeworks.serve.models import SearchIndex, ServedModel

# The fraction of the memory that is available at the start which models may take.
_MEMORY_FRACTION = 0.5
_UNKNOWN_MEMORY = 4 << 30


class ModelMemory:
    """The memory of models that are loaded: who was asked longest ago makes way.

    Args:
        most: How many bytes all of them may take; half of what is available if not given. One model
            is always kept, whatever its size.
    """

    def __init__(self, most: int | None = None) -> None:
        have = available() or int(_UNKNOWN_MEMORY / _MEMORY_FRACTION)
        self._most = int(have * _MEMORY_FRACTION) if most is None else most
        self._held: dict[FolderModel, int] = {}
        self._lock = Lock()

    def use(self, model: "FolderModel", size: int) -> None:
        """A model of so many bytes is asked; others are let go if all together are too many."""
        with self._lock:
            self._held.pop(model, None)
            self._held[model] = size
            while sum(self._held.values()) > self._most and len(self._held) > 1:
                oldest = next(iter(self._held))
                del self._held[oldest]
                oldest.let_go()


class FolderModel(ServedModel):
    """A model or an index in a folder. What it is, is read at once; its weights, when it is asked.

    Args:
        name: Its name.
        source: Its folder; of a model also a hub name.
        memory: Shared with the other models.
        device: Where the model computes, and
        dtype: in which number type; as for `cw.load`.
    """

    def __init__(
        self,
        name: str,
        source: str | Path,
        memory: ModelMemory,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__(name)
        self._source, self._memory = source, memory
        self._device, self._dtype = device, dtype
        self._reading = RLock()
        self._outline: LanguageModel | None = None

    @cached_property
    def is_index(self) -> bool:
        """Whether it is an index."""
        return is_index(Path(self._source))

    @property
    def model(self) -> LanguageModel | None:
        """The model, loaded now if it is not."""
        with self._reading:
            if self._model is None and not self.is_index and not self._unloadable:
                try:
                    loaded = load(self._source, device=self._device, dtype=self._dtype)
                    loaded.model.eval()
                    loaded.name = self.name  # clients shall know nothing of folders
                    self._model = loaded
                except ClozeworksError as error:
                    self._unloadable = str(error)
            model = self._model
        if model is not None:
            self._memory.use(self, bytes_of(model))
        return model

    @property
    def outline(self) -> LanguageModel | None:
        """The model without its weights; it is kept."""
        with self._reading:
            if self._outline is None and not self.is_index and not self._unloadable:
                try:
                    self._outline = outline(self._source)
                except ClozeworksError as error:
                    self._unloadable = str(error)
            return self._outline

    @property
    def index(self) -> SearchIndex | None:
        """The index, opened now if it is not."""
        with self._reading:
            if self._index is None and self.is_index and not self._unloadable:
                try:
                    opened: Any = Index.open(self._source)
                    self._index = opened
                except ClozeworksError as error:
                    self._unloadable = str(error)
            return self._index

    @property
    def truncate_dims(self) -> tuple[int, ...]:
        """The widths that the folder says vectors may be cut to."""
        model = self.outline
        return () if model is None else tuple(sorted(stated_widths(model)))

    def let_go(self) -> None:
        """Forgets the weights; who computes with them goes on."""
        self._model = None

"""The folders that were opened: what there is in them now, and who watches it."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from clozeworks.errors import ClozeworksError
from clozeworks.serve.models import ServedModels
from clozeworks.serve.replies import RefusedRequest
from clozeworks.serve.workspace.contents import Contents, find_contents
from clozeworks.serve.workspace.curves import Curves
from clozeworks.serve.workspace.on_demand import FolderModel, ModelMemory
from clozeworks.serve.workspace.processes import StartedRuns
from clozeworks.serve.workspace.run_records import run_record
from clozeworks.serve.workspace.watching import RunWatcher
from clozeworks.wording import shortened

# For so many seconds what was found is not looked for again.
_FRESH = 2.0


class NotHere(RefusedRequest):
    """Something that is not, or no longer, in the folders that were opened."""

    def __init__(self, sentence: str) -> None:
        super().__init__(404, sentence)


class Workspace:
    """What there is in some folders.

    Args:
        sources: Models, runs, indexes, corpora, labelled files, and folders that hold them.
        device: Where models compute, and
        dtype: in which number type; as for `cw.load`.
        seconds: How often runs are looked at while somebody watches.

    Raises:
        InputError: If one of them does not exist.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        *,
        device: str | None = None,
        dtype: str | None = None,
        seconds: float = 1.0,
    ) -> None:
        self.sources = tuple(str(each) for each in sources)
        self.contents = find_contents(self.sources)
        self._looked = time.monotonic()
        self._looking = Lock()
        self._memory, self._device, self._dtype = ModelMemory(), device, dtype
        self.models = ServedModels([])
        self.curves = Curves()
        self.started = StartedRuns()
        self._serve_models()
        self.watcher = RunWatcher(self.runs, self.record, seconds)

    @property
    def roots(self) -> list[Path]:
        """The folders that were opened, or that hold the files that were."""
        paths = [Path(each).expanduser() for each in self.sources]
        return [each if each.is_dir() else each.parent for each in paths if each.exists()]

    def look(self) -> Contents:
        """What there is, looked for again if that was a while ago."""
        with self._looking:
            if time.monotonic() - self._looked > _FRESH:
                try:
                    self.contents = find_contents(self.sources)
                except ClozeworksError:  # a folder that was named is gone: what is below it, too
                    left = [each for each in self.sources if Path(each).expanduser().exists()]
                    self.contents = find_contents(left)
                self._looked = time.monotonic()
                self._serve_models()
            return self.contents

    def _serve_models(self) -> None:
        """Serves what was found; a model that a run leaves behind appears, none disappears."""
        for name, path in self.contents.models.items():
            self.models.add(FolderModel(name, path, self._memory, self._device, self._dtype))

    def runs(self) -> Mapping[str, Path]:
        """The runs by name."""
        return self.look().runs

    def record(self, name: str, folder: Path) -> dict[str, Any]:
        """What there is to say about a run."""
        record = run_record(name, folder)
        if record["status"] != "running" and (complaint := self.started.complaint(folder)):
            record["problem"] = complaint
        return record

    def run(self, name: str) -> Path:
        """The folder of a run.

        Raises:
            NotHere: If there is none of this name.
        """
        return self._known("run", lambda: self.look().runs, name)

    def corpus(self, name: str) -> Path:
        """The folder of a corpus.

        Raises:
            NotHere: If there is none of this name.
        """
        return self._known("corpus", lambda: self.look().corpora, name)

    def file(self, name: str) -> Path:
        """A labelled file.

        Raises:
            NotHere: If there is none of this name.
        """
        return self._known("file", lambda: self.look().files, name)

    def _known(self, what: str, found: Callable[[], Mapping[str, Path]], name: str) -> Path:
        # The name is looked up, never used as a path.
        path = found().get(name)
        if path is None:
            raise NotHere(
                f"there is no {what} {shortened(name)!r} in what was opened; it may have been "
                "moved or deleted; look at the list again."
            )
        return path

    def close(self) -> None:
        """Ends watching; runs that were started go on."""
        self.watcher.close()

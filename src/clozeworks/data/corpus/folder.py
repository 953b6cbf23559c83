"""The folder a corpus is built in: what it holds, what may stay, what is removed."""

import shutil
from pathlib import Path
from typing import Any

from clozeworks.data.corpus.corpus import INDEX_FOLDER, TOKENIZER_FOLDER, TRAIN, VALIDATION
from clozeworks.data.corpus.manifest import BUILDING, MANIFEST
from clozeworks.data.corpus.split_writer import read_record
from clozeworks.errors import OutputError
from clozeworks.storage.atomic import write_json
from clozeworks.text.tokenizer.tokenizer import Tokenizer

RECIPE = "recipe.json"
LOCK = ".lock"
_FOLDERS = (BUILDING, INDEX_FOLDER, TOKENIZER_FOLDER)


def check_free(out: Path) -> None:
    """Checks that a folder holds nothing but a corpus.

    Raises:
        OutputError: If it holds something else.
    """
    begun = (out / MANIFEST).is_file() or (out / BUILDING / RECIPE).is_file()
    if begun or not out.is_dir():
        return
    foreign = sorted(path.name for path in out.iterdir() if not _is_own(path.name))
    if foreign:
        raise OutputError(
            f"{out} holds other files ({foreign[0]}); a corpus needs a folder of its own; choose "
            "another one with --out."
        )


def prepare(out: Path, recipe: dict[str, Any], tokenizer: Tokenizer, *, overwrite: bool) -> bool:
    """Makes the folder ready to build in, or to go on in.

    An interrupted build may go on although files were added, fixed or are skipped now: that its
    finished shards hold what they would hold is checked document by document.

    Args:
        out: The folder; nobody else may be writing there.
        recipe: What the corpus is made of, and how.
        tokenizer: The tokenizer, of which a copy is kept.
        overwrite: Whether what exists there is replaced.

    Returns:
        False if the same corpus exists there already.

    Raises:
        OutputError: If another corpus exists there, or the folder cannot be written.
    """
    check_free(out)
    if not overwrite and (out / MANIFEST).is_file():
        made = read_record(out / MANIFEST).get("made")
        if not isinstance(made, dict):
            raise OutputError(
                f"{out / MANIFEST} is damaged; replace the corpus with --overwrite, or choose "
                "another folder with --out."
            )
        _check_same(out, made, recipe)
        shutil.rmtree(out / BUILDING, ignore_errors=True)
        return False
    begun = read_record(out / BUILDING / RECIPE)
    # Replacing begins by removing the manifest: without one, a build that was begun is this one.
    begun_anew = overwrite and (
        (out / MANIFEST).is_file() or not begun or _lasting(begun) != _lasting(recipe)
    )
    try:
        if begun_anew or not begun or not any((out / BUILDING).glob("*-*.json")):
            _clear(out)
        else:
            _check_same(out, _lasting(begun), _lasting(recipe))
        for folder in (out, out / BUILDING, out / TOKENIZER_FOLDER):
            folder.mkdir(exist_ok=True)
            for path in folder.glob(".*.temporary"):  # what a killed build was writing
                path.unlink()
        tokenizer.save(out / TOKENIZER_FOLDER)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(
            f"{out} cannot be written ({error.strerror or error}); choose another folder."
        ) from error
    write_json(out / BUILDING / RECIPE, recipe)
    return True


def _lasting(recipe: dict[str, Any]) -> dict[str, Any]:
    """What must not change while a corpus is built."""
    settings = {
        name: value for name, value in recipe["settings"].items() if name != "skip_bad_files"
    }
    return {**recipe, "settings": settings, "files": None}


def _check_same(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    if before != now:
        raise OutputError(
            f"{out} holds a corpus made otherwise: {_difference(before, now)}; choose another "
            "folder with --out, or replace it with --overwrite."
        )


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for name, value in now["settings"].items():
        if before.get("settings", {}).get(name) != value:
            return f"{name} was {before.get('settings', {}).get(name)!r} and is {value!r}"
    if before.get("files") != now["files"]:
        return "other input files, or files of another size"
    return "another tokenizer" if before.get("tokenizer") != now["tokenizer"] else "another version"


def _is_own(name: str) -> bool:
    shard = name.startswith((TRAIN + "-", VALIDATION + "-")) and name.endswith(".safetensors")
    temporary = name.startswith(".") and name.endswith(".temporary")
    return name in (MANIFEST, LOCK, *_FOLDERS) or shard or temporary


def begin_anew(out: Path) -> None:
    """Removes the shards of a build that was begun, but not what is being built."""
    for path in (*out.glob("*.safetensors"), *(out / BUILDING).glob("*-*.json")):
        path.unlink()


def _clear(out: Path) -> None:
    (out / MANIFEST).unlink(missing_ok=True)  # first: what is left is no longer a corpus
    for path in out.iterdir():
        if path.name in _FOLDERS:
            shutil.rmtree(path)
        elif _is_own(path.name) and path.name != LOCK:
            path.unlink()

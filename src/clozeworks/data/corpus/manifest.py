"""The manifest of a corpus: what was made of what, and which shards there are.

A folder is a corpus from the moment it has a manifest.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clozeworks.data.files.encodings import missing_file
from clozeworks.errors import InputError
from clozeworks.storage.checksums import is_intact
from clozeworks.wording import shortened

MANIFEST = "manifest.json"
BUILDING = "building"
VERSION = 1

_EACH = "*"
_SIZES = {"tokens": int, "sentences": int, "documents": int}
_SHARD = {"file": str, "sha256": str, "bytes": int, **_SIZES}
_SPLIT = {
    **_SIZES,
    "identity": str,
    "counts": {_EACH: int, "words": int, "unknown": int},
    "sentence_lengths": [int],
    "document_lengths": [int],
    "shards": [_SHARD],
}
# What every manifest has, and may rely on who reads one.
_SHAPE = {
    "made": {"settings": dict},
    "tokenizer": {"fingerprint": str, "size": int, "kind": str},
    "counts": {_EACH: int},
    "splits": {_EACH: _SPLIT},
}
_SHARD_NAME, _SHA256 = re.compile(r"[\w-][\w.-]{0,200}"), re.compile("[0-9a-f]{64}")
_KINDS = {int: "a number", str: "a text", dict: "an object", list: "a list"}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads the manifest of a corpus folder.

    Raises:
        InputError: If there is none, or it is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise _no_corpus(folder)
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it is not valid JSON") from error
    if fault := _fault(manifest, {"version": int}):
        raise _damaged(path, fault)
    if manifest["version"] != VERSION:
        raise InputError(
            f"{path} has version {manifest['version']}; this program reads version {VERSION}; "
            "build the corpus again with --overwrite."
        )
    if fault := _fault(manifest, _SHAPE) or _wrong_names(manifest):
        raise _damaged(path, fault)
    if not is_intact(manifest):
        raise _damaged(path, "its checksum is that of another content")
    return manifest


def _no_corpus(folder: Path) -> InputError:
    if not folder.exists():
        return missing_file(folder)
    if (folder / BUILDING).is_dir():
        return InputError(
            f"{folder} is not finished; its build was interrupted or is still running; run the "
            "same `clozeworks corpus build` again to go on."
        )
    return InputError(
        f"{folder} is not a corpus; a corpus is a folder with a {MANIFEST}; name another one, or "
        "build one with `clozeworks corpus build`."
    )


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged ({why}); build the corpus again from the raw text with --overwrite."
    )


def _fault(value: object, shape: Any, where: str = "") -> str | None:
    """Says what is wrong with a value that was read from JSON; None if it has the shape.

    A shape is a type; a dictionary of shapes for an object with these entries and perhaps others,
    which have the shape of `_EACH` if that is stated; a list of one shape. Numbers are whole,
    at least 0 and below 2**63.
    """
    wanted = shape if isinstance(shape, type) else type(shape)
    impossible = isinstance(value, int) and not 0 <= value < 2**63
    if not isinstance(value, wanted) or isinstance(value, bool) or impossible:
        return f"{where or 'it'} is not {_KINDS[wanted]}"
    inside: Iterable[tuple[object, Any, str]] = ()
    if isinstance(shape, list) and isinstance(value, list):
        inside = ((item, shape[0], f"{where}[{i}]") for i, item in enumerate(value))
    elif isinstance(shape, dict) and isinstance(value, dict):
        others = dict.fromkeys(value, shape[_EACH]) if _EACH in shape else {}
        shapes = others | {name: kind for name, kind in shape.items() if name != _EACH}
        if absent := [name for name in shapes if name not in value]:
            return f"{where or 'it'} has no {absent[0]!r}"
        before = f"{where}." if where else ""
        inside = ((value[name], kind, f"{before}{name}") for name, kind in shapes.items())
    return next((fault for item in inside if (fault := _fault(*item))), None)


def _wrong_names(manifest: dict[str, Any]) -> str | None:
    """Finds a manifest without splits, shards in another folder, and what is not a checksum."""
    shards = [shard for split in manifest["splits"].values() for shard in split["shards"]]
    if not shards:
        return "it names no shards"
    for shard in shards:
        if not _SHARD_NAME.fullmatch(shard["file"]):
            return f"{shortened(repr(shard['file']))} is not a shard"
        if not _SHA256.fullmatch(shard["sha256"]):
            return f"{shortened(repr(shard['sha256']))} is not a checksum"
    return None

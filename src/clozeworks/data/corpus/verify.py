"""Checks a corpus against its manifest, byte by byte and rule by rule."""

from collections.abc import Iterator

import numpy as np

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.corpus.manifest import MANIFEST
from clozeworks.data.corpus.shards import Shard, ShardEntry, totals
from clozeworks.errors import ClozeworksError, InputError
from clozeworks.runtime.progress import Progress
from clozeworks.storage.checksums import digest_of


def verify(corpus: Corpus, progress: Progress | None = None) -> list[str]:
    """Sentences about everything that is wrong; none if the corpus is intact."""
    wrong: list[str] = []
    try:
        size = corpus.tokenizer.size
    except ClozeworksError as error:
        size = corpus.manifest["tokenizer"]["size"]
        wrong.append(str(error))
    for name, entry, fault in _compared(corpus, progress):
        if fault is not None:
            wrong.append(fault)
            continue
        try:
            wrong += _broken_rules(Shard(corpus.folder / entry.file, entry), size, name)
        except ClozeworksError as error:
            wrong.append(str(error))
    for name, split in corpus.manifest["splits"].items():
        if any(split[key] != value for key, value in totals(corpus.entries(name)).items()):
            wrong.append(f"{corpus.folder / MANIFEST} contradicts itself about {name}.")
    return wrong


def check_shards(corpus: Corpus, progress: Progress | None = None) -> None:
    """Compares every shard with its hash, as a run does before it begins.

    Raises:
        InputError: If a shard is not the one that was built.
    """
    for _, _, fault in _compared(corpus, progress):
        if fault is not None:
            raise InputError(
                f"{fault} Put an intact copy in its place, or build the corpus again with "
                "--overwrite."
            )


def _compared(
    corpus: Corpus, progress: Progress | None
) -> Iterator[tuple[str, ShardEntry, str | None]]:
    """Every shard with its part, and what is wrong with its bytes."""
    entries = [(name, entry) for name in corpus.splits for entry in corpus.entries(name)]
    total, done = sum(entry.bytes for _, entry in entries), 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    for name, entry in entries:
        path = corpus.folder / entry.file
        try:
            same = digest_of(path, step) == entry.sha256
        except OSError as error:
            yield name, entry, f"{path} cannot be read ({error.strerror or error})."
        else:
            fault = f"{path} is damaged: its hash is not the one in the manifest."
            yield name, entry, None if same else fault


def _broken_rules(shard: Shard, size: int, split: str) -> list[str]:
    sentences, documents = shard.offsets("sentences"), shard.offsets("documents")
    filled = np.diff(sentences) > 0
    rules = {
        "a token outside the vocabulary": int(shard.read("tokens").max(initial=0)) < size,
        "an empty sentence": bool(filled.all()),
        "an empty document": bool((np.diff(documents) > 0).all()),
        "a sentence that does not begin with a word": bool(
            shard.read("word_starts")[sentences[:-1][filled]].all()
        ),
    }
    return [f"{shard.path} ({split}) holds {what}." for what, absent in rules.items() if not absent]

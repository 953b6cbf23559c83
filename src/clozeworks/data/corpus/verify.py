"""Checks a corpus against its manifest, byte by byte and rule by rule."""

from hashlib import sha256

import numpy as np

from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.corpus.manifest import MANIFEST
from clozeworks.data.corpus.shards import Shard, totals
from clozeworks.errors import ClozeworksError
from clozeworks.runtime.progress import Progress

_AT_A_TIME = 1 << 20


def verify(corpus: Corpus, progress: Progress | None = None) -> list[str]:
    """Sentences about everything that is wrong; none if the corpus is intact."""
    wrong: list[str] = []
    try:
        size = corpus.tokenizer.size
    except ClozeworksError as error:
        size = corpus.manifest["tokenizer"]["size"]
        wrong.append(str(error))
    entries = [(name, entry) for name in corpus.splits for entry in corpus.entries(name)]
    total, done = sum(entry.bytes for _, entry in entries), 0
    for name, entry in entries:
        path = corpus.folder / entry.file
        digest = sha256()
        try:
            with path.open("rb") as file:
                while block := file.read(_AT_A_TIME):
                    digest.update(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
        except OSError as error:
            wrong.append(f"{path} cannot be read ({error.strerror or error}).")
            continue
        if digest.hexdigest() != entry.sha256:
            wrong.append(f"{path} is damaged: its hash is not the one in the manifest.")
            continue
        try:
            wrong += _broken_rules(Shard(path, entry), size, name)
        except ClozeworksError as error:
            wrong.append(str(error))
    for name, split in corpus.manifest["splits"].items():
        if any(split[key] != value for key, value in totals(corpus.entries(name)).items()):
            wrong.append(f"{corpus.folder / MANIFEST} contradicts itself about {name}.")
    return wrong


def _broken_rules(shard: Shard, size: int, split: str) -> list[str]:
    arrays = shard.arrays
    sentences, documents = shard.offsets("sentences"), shard.offsets("documents")
    filled = np.diff(sentences) > 0
    rules = {
        "a token outside the vocabulary": int(arrays["tokens"].max(initial=0)) < size,
        "an empty sentence": bool(filled.all()),
        "an empty document": bool((np.diff(documents) > 0).all()),
        "a sentence that does not begin with a word": bool(
            arrays["word_starts"][sentences[:-1][filled]].all()
        ),
    }
    return [f"{shard.path} ({split}) holds {what}." for what, absent in rules.items() if not absent]

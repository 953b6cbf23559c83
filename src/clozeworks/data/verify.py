"""Checks a corpus against its manifest, byte by byte and rule by rule."""

from collections.abc import Callable
from hashlib import sha256

import numpy as np

from clozeworks.data.corpus import Corpus
from clozeworks.data.shards import Shard, ShardEntry
from clozeworks.errors import ClozeworksError
from clozeworks.text.tokenizer import Tokenizer

Progress = Callable[[int, int], None]
_AT_A_TIME = 1 << 20


def verify(corpus: Corpus, progress: Progress | None = None) -> list[str]:
    """Sentences about everything that is wrong; none if the corpus is intact.

    Args:
        corpus: The corpus.
        progress: Called with bytes checked and bytes in all.
    """
    wrong: list[str] = []
    try:
        tokenizer: Tokenizer | None = corpus.tokenizer
        corpus.check_tokenizer(corpus.tokenizer, f"{corpus.folder / 'tokenizer'}")
    except ClozeworksError as error:
        tokenizer = None
        wrong.append(str(error))
    entries = [
        (name, ShardEntry(**item))
        for name, split in corpus.manifest["splits"].items()
        for item in split["shards"]
    ]
    total, done = sum(entry.bytes for _, entry in entries), 0
    for name, entry in entries:
        path = corpus.folder / entry.file
        found = sha256()
        try:
            with path.open("rb") as file:
                while block := file.read(_AT_A_TIME):
                    found.update(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
        except OSError as error:
            wrong.append(f"{path} cannot be read ({error.strerror or error}).")
            continue
        if found.hexdigest() != entry.sha256:
            wrong.append(f"{path} is damaged: its hash is not the one in the manifest.")
            continue
        size = tokenizer.size if tokenizer else corpus.manifest["tokenizer"]["size"]
        wrong += _broken_rules(Shard(path, entry), size, name)
    for name, split in corpus.manifest["splits"].items():
        shards = [ShardEntry(**item) for item in split["shards"]]
        identity = sha256("".join(entry.sha256 for entry in shards).encode()).hexdigest()
        if identity != split["identity"]:
            wrong.append(f"{corpus.folder}: the manifest contradicts itself about {name}.")
    return wrong


def _broken_rules(shard: Shard, size: int, split: str) -> list[str]:
    arrays = shard.arrays
    sentences, documents = (arrays[name].astype(np.int64) for name in ("sentences", "documents"))
    rules = {
        "a token outside the vocabulary": int(arrays["tokens"].max(initial=0)) < size,
        "sentences out of order": bool((np.diff(sentences) > 0).all()) and sentences[0] == 0,
        "sentences that end elsewhere than the tokens": sentences[-1] == len(arrays["tokens"]),
        "documents out of order": bool((np.diff(documents) > 0).all()) and documents[0] == 0,
        "documents that end elsewhere than the sentences": documents[-1] == len(sentences) - 1,
        "a sentence that does not begin with a word": bool(
            arrays["word_starts"][sentences[:-1]].all()
        ),
    }
    return [f"{shard.path} ({split}) holds {what}." for what, kept in rules.items() if not kept]

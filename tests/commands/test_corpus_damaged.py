"""Damaged manifests and shards, and what the commands that read them say."""

import json
import random
import shutil

import pytest

LOOKS = (["show"], ["verify"], ["batch", "--objective", "roberta"], ["batch"])
AGAIN = "build the corpus again from the raw text with --overwrite."


def change(*path, value=None):
    """Changes a value somewhere in a manifest, or takes it out."""

    def changed(manifest):
        *before, last = path
        place = manifest
        for key in before:
            place = place[key]
        if value is None:
            del place[last]
        else:
            place[last] = value
        return json.dumps(manifest)

    return changed


SHARD = ("splits", "train", "shards", 0)
DAMAGES = {
    "cut": (lambda manifest: json.dumps(manifest)[:-100], "it is not valid JSON"),
    "empty": (lambda manifest: "", "it is not valid JSON"),
    "deep": (lambda manifest: "[" * 100_000, "it is not valid JSON"),
    "list": (lambda manifest: "[]", "it is not an object"),
    "no version": (change("version"), "it has no 'version'"),
    "splits": (change("splits", value=[]), "splits is not an object"),
    "no splits": (change("splits", value={}), "it names no shards"),
    "no tokenizer": (change("tokenizer"), "it has no 'tokenizer'"),
    "size": (change("tokenizer", "size", value="x"), "tokenizer.size is not a number"),
    "settings": (change("made", "settings", value=7), "made.settings is not an object"),
    "shards": (change("splits", "train", "shards"), "splits.train has no 'shards'"),
    "shard": (change(*SHARD, value=1), "splits.train.shards[0] is not an object"),
    "no file": (change(*SHARD, "file"), "splits.train.shards[0] has no 'file'"),
    "tokens": (change(*SHARD, "tokens", value=-1), "splits.train.shards[0].tokens is not a number"),
    "sha256": (change(*SHARD, "sha256", value=True), "splits.train.shards[0].sha256 is not a text"),
    "elsewhere": (change(*SHARD, "file", value="../a"), "'../a' is not a shard"),
    "huge": (
        change("splits", "train", "counts", "unknown", value=10**400),
        "splits.train.counts.unknown is not a number",
    ),
    "half": (change(*SHARD, "sha256", value="\ud800"), "'\\ud800' is not a checksum"),
    "long": (change(*SHARD, "file", value="9" * 5000), f"'{'9' * 158}… is not a shard"),
    "counts": (
        change("splits", "train", "counts", "without_tokens", value="x"),
        "splits.train.counts.without_tokens is not a number",
    ),
    "lengths": (
        change("splits", "train", "sentence_lengths", value=[1, "2"]),
        "splits.train.sentence_lengths[1] is not a number",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_manifests(refused, corpus, name):
    path = corpus / "manifest.json"
    damage, why = DAMAGES[name]
    path.write_text(damage(json.loads(path.read_text())))
    for look, *more in LOOKS:
        refused(f"{path} is damaged ({why}); {AGAIN}", "corpus", look, corpus, *more)


def test_manifests_that_contradict_themselves_or_are_of_tomorrow(refused, corpus):
    path = corpus / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(change("splits", "train", "documents", value=3)(manifest))
    refused(
        f"{path} is damaged (its checksum is that of another content); {AGAIN}",
        *("corpus", "verify", corpus),
    )
    del manifest["checksum"]  # as in corpora that were built before there was one
    path.write_text(json.dumps(manifest))
    refused(
        f"{path} contradicts itself about train. Build the corpus again from the raw text with "
        "--overwrite.",
        *("corpus", "verify", corpus),
    )
    path.write_text(change("version", value=2)(manifest))
    refused(
        f"{path} has version 2; this program reads version 1; build the corpus again with "
        "--overwrite.",
        *("corpus", "show", corpus),
    )


def test_any_damage_to_a_manifest_is_survived(command, corpus):
    path = corpus / "manifest.json"
    data = path.read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] = rng.choice(b'0123456789abc{}[]",: ')
        path.write_bytes(damaged)
        for look, *more in LOOKS[:3]:
            outcome = command("corpus", look, corpus, *more)
            assert outcome.code in (0, 2) and "Traceback" not in outcome.err


def unreadable(path, why):
    return (
        f"{path} is not a readable shard ({why}); put an intact copy in its place, or build the "
        "corpus again with --overwrite."
    )


def test_shards_that_are_missing_cut_or_swapped(refused, corpus):
    shards = sorted(corpus.glob("train-*.safetensors"))
    first, data = shards[0], shards[0].read_bytes()
    shutil.rmtree(corpus / "index", ignore_errors=True)
    damages = {
        "it is shorter than its header says": lambda: first.write_bytes(data[:-10]),
        "its header is damaged": lambda: first.write_bytes(b""),
        "it holds other arrays than the manifest says": lambda: shutil.copy(shards[1], first),
        "No such file or directory": first.unlink,
    }
    for why, damage in damages.items():
        damage()
        for look, *more in (LOOKS[0], *LOOKS[2:]):
            refused(unreadable(first, why), "corpus", look, corpus, *more)
    refused(
        f"{first} cannot be read (No such file or directory). Build the corpus again from the raw "
        "text with --overwrite.",
        *("corpus", "verify", corpus),
    )


@pytest.mark.parametrize(
    ("before", "after"), [(b'"data_offsets":[0,', b'"data_offsets":[1e999,'), (b"]}", b".0]}")]
)
def test_headers_with_numbers_that_are_not_whole(refused, corpus, before, after):
    first = min(corpus.glob("train-*.safetensors"))
    data = first.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b": ", b":").replace(b", ", b",")
    assert before in header
    header = header.replace(before, after)
    first.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])
    shutil.rmtree(corpus / "index", ignore_errors=True)
    refused(unreadable(first, "its header is damaged"), "corpus", "show", corpus)


def test_any_damage_to_a_shard_is_survived(command, corpus):
    path = min(corpus.glob("validation-*.safetensors"))
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    rng = random.Random(1)
    places = [
        *range(8),
        *rng.sample(range(8, header), 24),
        *rng.sample(range(header, len(data)), 24),
    ]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        shutil.rmtree(corpus / "index", ignore_errors=True)
        assert command("corpus", "verify", corpus).code == 2
        for look in (["show"], ["batch", "--split", "validation", "--length", "32"]):
            outcome = command("corpus", look[0], corpus, *look[1:])
            assert outcome.code in (0, 2) and "Traceback" not in outcome.err


def test_many_damaged_shards_are_not_all_named(command, corpus):
    shards = list(corpus.glob("*.safetensors"))
    for path in shards:
        path.write_bytes(b"")
    outcome = command("corpus", "verify", corpus)
    assert outcome.err.count("its hash is not the one in the manifest.") == 3
    assert f" {len(shards) - 3} more are wrong. Build " in outcome.err

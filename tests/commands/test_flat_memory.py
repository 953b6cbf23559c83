"""Files of any size: memory does not grow with the number of lines."""

import json
import subprocess
import sys

import pytest

import clozeworks as cw
from clozeworks.tasks.classify import Classify

# Runs a command on a file, and then on one four times as long; says by how many MB the most memory
# that was ever used has grown. Chunks are small, so that both files have many.
CHILD = """
import json, resource, sys
from clozeworks.cli.main import run
from clozeworks.data import chunks

chunks.CHUNK_ITEMS = 200
command, short, long, *options = sys.argv[1:]

def most(path):
    code = run([*command.split(), path, *options])
    assert code == 0, code
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)

before = most(short)
print(json.dumps(most(long) - before), file=sys.stderr)
"""
LINES = 2_000
BOUND = 32.0  # without chunks it grows by 90 to 100


def growth(folder, tmp_path, line, command, *options):
    paths = []
    for number in (LINES, 4 * LINES):
        path = tmp_path / f"{number}.txt"
        path.write_text("".join(line(index) + "\n" for index in range(number)), encoding="utf-8")
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, f"{command} {folder}", *paths, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


def words(number):
    """A line that no other is equal to, of about 60 tokens."""
    return f"{number} " + "the cat sat on the mat and the dog " * 6


@pytest.mark.parametrize("suffix", ["npy", pytest.param("parquet", marks=pytest.mark.slow)])
def test_embed(tiny_models, tmp_path, suffix):
    pytest.importorskip("pyarrow")
    pooling = ["--pooling", "mean,max,first,last,mean_sqrt_length,weighted_mean"]
    out = ["--out", str(tmp_path / f"v.{suffix}"), "--overwrite"]
    assert growth(tiny_models["bert"], tmp_path, words, "embed", *pooling, *out) < BOUND


@pytest.mark.slow
def test_classify(tiny_models, tmp_path):
    model = cw.load(tiny_models["bert"]).for_task(Classify(labels=("bad", "good")))
    folder = model.save(tmp_path / "model")
    out = ["--out", str(tmp_path / "o.jsonl"), "--overwrite"]
    assert growth(folder, tmp_path, words, "classify", *out) < BOUND


@pytest.mark.slow
def test_fill(tiny_models, tmp_path):
    def gap(number):
        return f"{words(number)} [MASK]"

    assert growth(tiny_models["bert"], tmp_path, gap, "fill", "--json") < BOUND


@pytest.mark.slow
def test_score(gpt, tmp_path):
    assert growth(gpt, tmp_path, words, "score", "--json") < BOUND

"""Tiny models and texts made by code, and a command line that runs inside the test."""

import os

# Several processes share the cores: threads that wait must not spin. Before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests start many processes: what one has compiled, others need not compile again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# How long an example takes says something of the machine and what else it does, not of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
# What a shell starts in the background ignores Ctrl-C, and below nohup a closed terminal; children
# would ignore both as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

SENTENCES = [
    "The capital of France is Paris, and Paris lies on the Seine.",
    "The cat sat on the mat and the dog lay on the rug.",
    "The dog sat beside the cat in the garden of the house.",
    "我爱北京，北京是中国的首都。",
    "北京的天气很好，我们在公园里。",
]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden", "river"]
WORDS += ["long", "city", "old", "new", "house"]
TASK_WORDS = (
    "translate : the a cat dog fox hen is good bad yes no on day user assistant system summarize "
    "cola sentence acceptable unacceptable 0 1 2 3 4 5 6 7 8 9 . ,"
)
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SIZES = {"bert": ("bert-tiny", "wordpiece"), "roberta": ("roberta-base", "bpe")}
HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
RECIPE = """
run = "{run}"
seed = 3
objective = "bert"
[model]
start = "bert-tiny"
config = {{hidden_size = 32, num_attention_heads = 2, intermediate_size = 64}}
[data]
corpus = "{corpus}"
stages = [{{length = 24, fraction = 0.75}}, {{length = 40, fraction = 0.25}}]
[training]
steps = 12
batch_tokens = 256
micro_batch_tokens = 64
learning_rate = 0.001
optimizer = {{kind = "adam_w"}}
schedule = {{kind = "linear", warmup_steps = 3}}
[logging]
every_steps = 5
[evaluation]
every_steps = 4
tokens = 256
[checkpointing]
every_steps = 2
"""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests of a folder that are all left out are not imported, nor what they compare with."""
    is_left_out = f"not {collection_path.name}" in config.getoption("markexpr")
    return True if is_left_out and collection_path.parent == HERE else None


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT and a RoBERTa folder with random weights; copy one before changing it."""
    import clozeworks as cw
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("tiny")
    for name, (size, kind) in SIZES.items():
        tokenizer = train_from_iterator(SENTENCES * 4, kind=kind, size=400)
        cw.new(size, tokenizer, **SMALL).save(folder / name)
    return {name: folder / name for name in SIZES}


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A T5 and a GPT-2 folder with random weights, to be taught; copy one before changing it."""
    import clozeworks as cw
    from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("writers")
    t5 = train_from_iterator([TASK_WORDS] * 5, kind="unigram", size=240, style=T5_STYLE)
    shape = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    cw.new("t5-small", t5, heads=["decoder", "vocabulary"], num_decoder_layers=1, **shape).save(
        folder / "t5"
    )
    gpt2 = train_from_iterator([TASK_WORDS] * 5, kind="bpe", size=400, style=GPT2_STYLE)
    cw.new("gpt2", gpt2, heads=["vocabulary"], n_embd=32, n_layer=1, n_head=4, n_positions=96).save(
        folder / "gpt2"
    )
    return {name: folder / name for name in ("t5", "gpt2")}


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """Serves models by name on a free port, in a thread: `with serving(models) as url`."""
    from queue import SimpleQueue
    from threading import Thread

    from clozeworks.serve.app import Answering
    from clozeworks.serve.application import all_endpoints
    from clozeworks.serve.models import ServedModel, ServedModels
    from clozeworks.serve.scheduler import Scheduler
    from clozeworks.serve.server import run

    @contextmanager
    def served(models, indexes=None, **settings) -> Iterator[str]:
        all_models = [ServedModel(name, model) for name, model in models.items()]
        all_models += [ServedModel(name, index=index) for name, index in (indexes or {}).items()]
        answering = Answering(ServedModels(all_models), Scheduler(), all_endpoints(), **settings)
        ready: SimpleQueue[str] = SimpleQueue()
        thread = Thread(target=run, args=(answering, "127.0.0.1", 0), kwargs={"ready": ready.put})
        thread.start()
        try:
            yield ready.get(timeout=60)
        finally:
            answering.draining = True
            thread.join(timeout=60)

    return served


@pytest.fixture
def bert_model(tiny_models: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the tiny BERT folder, to be damaged."""
    return Path(shutil.copytree(tiny_models["bert"], tmp_path / "model"))


@pytest.fixture(scope="session")
def made_up() -> Callable[[int], str]:
    """Makes a document of a few sentences, different for each number."""

    def document(number: int) -> str:
        rng = random.Random(number)
        return " ".join(
            " ".join(rng.choices(WORDS, k=rng.randint(2, 9))).capitalize() + f" {number}."
            for _ in range(rng.randint(1, 5))
        )

    return document


@pytest.fixture(scope="session")
def hashes() -> Callable[[Path], dict[str, str]]:
    """Hashes every file of a folder but its lock."""

    def of(folder: Path) -> dict[str, str]:
        return {
            str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    return of


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs a command in this process."""
    from clozeworks.cli.main import run

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def blank_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves charts blank, as drawing them takes longer than a small run; tests of reports draw."""
    blank = {"svg": b"<svg></svg>", "png": b"\x89PNG"}
    monkeypatch.setattr(
        "clozeworks.reports.charts._saved", lambda figure, kind, **options: blank[kind]
    )


@pytest.fixture
def refused(command: Callable[..., Outcome], tmp_path: Path) -> Callable[..., None]:
    """Checks that a command ends in exactly one sentence and leaves nothing behind."""

    def check(sentence: str, *arguments: object) -> None:
        before = listing(tmp_path)
        outcome = command(*arguments)
        assert outcome.err == f"clozeworks: {sentence}\n"
        assert (outcome.code, outcome.out) == (2, "")
        assert listing(tmp_path) == before

    return check


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, hidden ones too, with its size and time."""
    found = [path for path in folder.rglob("*") if path.is_file() or path.is_dir()]
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in found
    }


@pytest.fixture(name="listing")
def listing_fixture() -> Callable[[Path], dict[str, tuple[int, int]]]:
    """The function that lists a folder."""
    return listing


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Starts Python in a process of its own: `start(["-m", "clozeworks", …])`."""

    def begin(arguments: list[object], **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    return begin


@pytest.fixture
def largest_file() -> Callable[[int], AbstractContextManager[None]]:
    """`with largest_file(100)`: what is written is cut there, as on a full disk."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return limited


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB, where one can be had."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(scope="session")
def small_corpus(made_up: Callable[[int], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with both parts, for runs of a few steps; copy it before changing it."""
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("small")
    texts = [" ".join(made_up(number + part) for part in range(3)) for number in range(0, 600, 3)]
    (folder / "a.txt").write_text("\n\n".join(texts), encoding="utf-8")
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=300)
    build_corpus(
        [folder / "a.txt"], folder / "corpus", tokenizer, BuildSettings(validation=0.2), workers=1
    )
    return folder / "corpus"


@pytest.fixture(scope="session")
def write_recipe(small_corpus: Path) -> Callable[[Path], Path]:
    """Writes a recipe of twelve small steps in two stages, with dropout, for the run beside it."""

    def write(folder: Path) -> Path:
        path = folder / "recipe.toml"
        path.write_text(RECIPE.format(run=folder / "run", corpus=small_corpus), encoding="utf-8")
        return path

    return write


@pytest.fixture
def recipe(write_recipe: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A recipe of twelve small steps into the folder `run`."""
    return write_recipe(tmp_path)


@pytest.fixture(scope="session")
def in_memory():
    """Makes a split of token ids by document and sentence; says which ids begin a word."""
    import numpy as np

    from clozeworks.data.corpus.corpus import TRAIN, Split
    from clozeworks.data.corpus.shards import Shard, ShardEntry, token_dtype

    def make(documents, vocabulary, word_starts=None) -> Split:
        sentences = [sentence for document in documents for sentence in document]
        ids = [token for sentence in sentences for token in sentence]
        tokens = np.array(ids, dtype=token_dtype(vocabulary))
        offsets = np.cumsum([0, *map(len, sentences)])
        starts = np.ones(len(tokens), np.bool_) if word_starts is None else word_starts[tokens]
        starts[offsets[:-1][offsets[:-1] < len(tokens)]] = True
        shard = Shard(Path(), ShardEntry("", "", 0, len(tokens), len(sentences), len(documents)))
        arrays = {
            "tokens": tokens,
            "word_starts": starts,
            "sentences": offsets.astype(np.uint32),
            "documents": np.cumsum([0, *map(len, documents)]).astype(np.uint32),
        }
        shard.read = lambda name, start=0, stop=None: arrays[name][start:stop]
        content = sha256(b"".join(array.tobytes() for array in arrays.values()))
        return Split(TRAIN, [shard], vocabulary, content.hexdigest())

    return make


@pytest.fixture
def added_task(monkeypatch):
    """Lays the task of tests/contracts beside the package's own, as if its file stood there."""
    import clozeworks.tasks
    from clozeworks import registry

    folder = Path(__file__).parent / "contracts" / "added_task"
    monkeypatch.setattr(clozeworks.tasks, "__path__", [*clozeworks.tasks.__path__, str(folder)])
    registry.files.cache_clear()
    yield
    registry.files.cache_clear()
    module = sys.modules.pop("clozeworks.tasks.relate", None)
    if module is not None:  # else its task would stay in the registry
        module.Relate.folder = "taken away"

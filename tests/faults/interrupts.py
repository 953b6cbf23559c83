"""Interrupts commands at random moments of their lives, and says which of them ended badly.

Each kind of command runs on a tiny model, beside processes that keep the cores busy. Ctrl-C reaches
its whole process group, as from a terminal; SIGTERM, every fourth time, the process alone. The
moment is drawn from the whole life of the command, imports and exit included; with `--forked` the
imports are done once and for all, so that all moments fall into the work.

    python tests/faults/interrupts.py [KINDS …] [--times 500] [--forked] [--out results.jsonl]

A command must end with 130, with 143 (75 for a run that can go on), or complete. It must say
nothing of Python's, and leave no temporary file and no process. A signal that comes before the
first line of the package has run finds Python alone, and is counted apart. A kind that `--out` has
enough lines about is not repeated. Exits with 1 if any ended badly.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"
TEXTS = ("the cat sat on the mat", "Paris lies on the Seine", "the dog lay in its old garden")
MODELS = {"embed": "bert", "whiten": "bert", "generate": "gpt2", "score": "gpt2"}
RECIPE = """
run = "{work}/run"
objective = "bert"
[model]
start = "bert-tiny"
config = {{hidden_size = 32, num_attention_heads = 2, intermediate_size = 64}}
[data]
corpus = "{made}/corpus"
stages = [{{length = 24}}]
[training]
steps = 12
batch_tokens = 256
micro_batch_tokens = 64
[evaluation]
every_steps = 4
tokens = 256
[checkpointing]
every_steps = 2
"""
# Imports what a kind needs; then each line it reads becomes a process with the real command.
FORKS = """
import gc, json, os, sys
from clozeworks.cli import main
import torch, torch._dynamo, clozeworks.language_model.model, clozeworks.display.progress
import clozeworks.jobs.pretrain.job, clozeworks.jobs.finetune.job, clozeworks.display.training
import clozeworks.jobs.tokenizer, clozeworks.data.corpus.build, matplotlib.figure
gc.freeze()
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(order["work"])
        os.environ["TMPDIR"] = order["temporary"]
        for number, name in ((0, "/dev/null"), (1, order["out"]), (2, order["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        break
    print(child, flush=True)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(order["code"] + "-", "w") as file:
        file.write(str(code))
    os.replace(order["code"] + "-", order["code"])
else:
    sys.exit()
sys.argv = ["clozeworks", *order["arguments"]]
main.main()
"""
# What Python and C++ say on their own when something ends as it should not.
ALARMS = re.compile(r"Traceback|Fatal Python|terminate called|Exception ignored|Error in |Aborted")
# The first files of the package: until they are imported, nothing of ours can run.
OURS = re.compile(r'File "[^"]*/clozeworks/(?!__init__\.py|__main__\.py|cli/__init__\.py)')

FINE = ("complete", "stopped", "before")
MOST_SECONDS = 120.0
# A process, and what asks for its exit code: None while it runs.
Started = tuple[int, Callable[[], int | None]]


@dataclass(frozen=True)
class Kind:
    """A kind of command.

    Attributes:
        words: The command, with the folders `{made}` (models and texts) and `{work}`.
        ranks: Processes that share it.
        kept: Names of hidden files and folders that may stay where it stopped.
    """

    words: tuple[str, ...]
    ranks: int = 1
    kept: tuple[str, ...] = ()

    def arguments(self, made: Path, work: Path) -> list[str]:
        """The words after `clozeworks`."""
        return [word.format(made=made, work=work) for word in self.words]


def answering(name: str, *more: str) -> Kind:
    """A command that asks a model about texts."""
    return Kind((name, f"{{made}}/{MODELS.get(name, name)}", "{made}/texts.txt", *more))


OUT = ("--out", "{work}/out.jsonl")
KINDS = {
    "fill": Kind(("fill", "{made}/bert", "{made}/gaps.txt", "--json")),
    "embed": answering("embed", "--out", "{work}/out.npy"),
    "whiten": answering("whiten", "--method", "centre", "--out", "{work}/out"),
    "index": Kind(
        ("index", "{made}/long.txt", "--model", "{made}/bert", "--out", "{work}/out"),
        kept=(".lock",),
    ),
    "classify": answering("classify", *OUT),
    "tag": answering("tag", *OUT),
    "generate": answering("generate", "--max-new-tokens", "8", *OUT),
    "text-to-text": Kind(("text-to-text", "{made}/gpt2", "{made}/few.txt", *OUT)),
    "score": answering("score", "--json"),
    "tokenizer": Kind(("tokenizer", "train", "{made}/long.txt", "--out", "{work}/out")),
    "corpus": Kind(
        ("corpus", "build", "{made}/long.txt", "--tokenizer", "{made}/bert", "--out", "{work}/out"),
        kept=(".lock", ".building"),
    ),
    "pretrain": Kind(("pretrain", "{work}/recipe.toml"), kept=(".lock",)),
    "finetune": Kind(
        ("finetune", "classify", "{made}/bert", "{made}/rows.csv", "--out", "{work}/run"),
        kept=(".lock",),
    ),
    "mine": Kind(("mine", "{made}/pairs.tsv", "--model", "{made}/bert", *OUT)),
    "ranks": Kind(("pretrain", "{work}/recipe.toml"), ranks=2, kept=(".lock",)),
}


def prepare(made: Path) -> None:
    """Makes the models and texts that commands are given."""
    import clozeworks as cw
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.tasks.classify import Classify
    from clozeworks.tasks.tag import Tag
    from clozeworks.text.tokenizer.styles import GPT2_STYLE
    from clozeworks.text.training.train import train_from_iterator

    rng = random.Random(0)
    words = " ".join(TEXTS).split()
    texts = [" ".join(rng.choices(words, k=rng.randint(3, 20))) for _ in range(6000)]
    (made / "texts.txt").write_text("\n".join(texts[:400]) + "\n")
    (made / "few.txt").write_text("\n".join(texts[:48]) + "\n")
    (made / "gaps.txt").write_text("".join(f"{text} [MASK]\n" for text in texts[:400]))
    (made / "long.txt").write_text("\n\n".join(f"{text}. {text}." for text in texts) + "\n")
    rows = [f"{text},{'yes' if number % 2 else 'no'}" for number, text in enumerate(texts[:120])]
    (made / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    (made / "pairs.tsv").write_text("anchor\tpositive\n" + "\n".join(f"{t}\t{t}." for t in texts))
    pieces = train_from_iterator(texts, kind="wordpiece", size=300)
    bert = cw.new("bert-tiny", pieces, hidden_size=32, intermediate_size=64)
    bert.save(made / "bert")
    bert.for_task(Classify(labels=("no", "yes"))).save(made / "classify")
    bert.for_task(Tag(labels=("O", "B-LOC", "I-LOC"))).save(made / "tag")
    pairs = train_from_iterator(texts, kind="bpe", size=330, style=GPT2_STYLE)
    cw.new("gpt2", pairs, n_embd=32, n_layer=2, n_head=2, n_positions=128).save(made / "gpt2")
    settings = BuildSettings(validation=0.2)
    build_corpus([made / "long.txt"], made / "corpus", pieces, settings, workers=1)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # or minus the signal that killed it
    seconds: float
    interrupted: bool  # it still ran when the moment came
    err: str
    left: list[str]  # processes, temporary and hidden files
    files: list[str]


class Runner:
    """Runs commands of one kind on models and texts in `made`."""

    def __init__(self, kind: Kind, made: Path, *, forked: bool) -> None:
        self.kind, self.made = kind, made
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "PYTHONFAULTHANDLER": "1",
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        if kind.ranks > 1:
            self.environment["OMP_NUM_THREADS"] = "1"
        self._forks: subprocess.Popen[str] | None = None
        if forked:
            self._forks = subprocess.Popen(
                [sys.executable, "-c", FORKS],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )

    def close(self) -> None:
        """Ends the process that forks."""
        if self._forks is not None:
            self._forks.communicate()

    def run(self, delay: float | None = None, number: int = signal.SIGINT) -> Ended:
        """Runs one command in a folder of its own; sends it a signal after so many seconds."""
        with tempfile.TemporaryDirectory(prefix="interrupted-") as name:
            folder = Path(name)
            work, temporary = folder / "work", folder / "temporary"
            work.mkdir()
            temporary.mkdir()
            (work / "recipe.toml").write_text(RECIPE.format(work=work, made=self.made))
            start = self._fork if self._forks else self._start
            process, code_of = start(folder, self.kind.arguments(self.made, work))
            begin, interrupted, patience = time.monotonic(), False, MOST_SECONDS
            while (code := code_of()) is None:
                passed = time.monotonic() - begin
                if delay is not None and passed > delay and not interrupted:
                    interrupted = True
                    # A terminal tells the whole group; `kill` one process.
                    with suppress(ProcessLookupError):  # it has just ended
                        (os.killpg if number == signal.SIGINT else os.kill)(process, number)
                if passed > patience:  # it hangs: its threads say where, then it is killed
                    os.kill(process, signal.SIGABRT if patience == MOST_SECONDS else signal.SIGKILL)
                    patience *= 2
                time.sleep(0.002)
            files = sorted(str(path.relative_to(work)) for path in work.rglob("*"))
            left = [f"process {each}" for each in in_session(process)]
            left += [
                f"temporary/{path.name}"
                for path in temporary.iterdir()
                if not path.name.startswith(("torchinductor_", "torchelastic_"))  # torch's own
            ]
            left += [name for name in files if self._hidden(name)]
            err = folder / "err"
            said = err.read_text(errors="replace") if err.exists() else ""
        return Ended(code, time.monotonic() - begin, interrupted, said, left, files)

    def _hidden(self, name: str) -> bool:
        return any(part.startswith(".") and part not in self.kind.kept for part in Path(name).parts)

    def _start(self, folder: Path, arguments: list[str]) -> Started:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        before = [*launcher, str(self.kind.ranks)] if self.kind.ranks > 1 else []
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, *before, "-m", "clozeworks", *arguments],
                env={**self.environment, "TMPDIR": str(folder / "temporary")},
                cwd=folder / "work",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return process.pid, process.poll

    def _fork(self, folder: Path, arguments: list[str]) -> Started:
        assert self._forks and self._forks.stdin and self._forks.stdout
        order = {name: str(folder / name) for name in ("work", "temporary", "out", "err", "code")}
        self._forks.stdin.write(json.dumps({**order, "arguments": arguments}) + "\n")
        self._forks.stdin.flush()
        child, code = int(self._forks.stdout.readline()), folder / "code"
        return child, lambda: int(code.read_text()) if code.exists() else None


def in_session(leader: int) -> list[int]:
    """The processes that belong to the session of one that has ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = path.read_text().rsplit(")", 1)[1].split()
            if fields[3] == str(leader) and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found


def verdict(kind: Kind, ended: Ended, number: int, complete: list[str]) -> str:
    """How it ended: `complete`, `stopped`, `before` its first line, or what was bad."""
    if ended.left:
        return f"left {', '.join(ended.left)}"
    if kind.ranks > 1:
        return ranks_verdict(ended, complete)
    if ended.code in (-number, 1) and not OURS.search(ended.err) and ended.interrupted:
        return "before"
    if alarm := ALARMS.search(ended.err):
        return f"said {alarm[0]}, code {ended.code}"
    if ended.code == 0:
        return "complete" if ended.files == complete else "files are missing"
    if not ended.interrupted:
        return f"failed with {ended.code}"
    fine = (130,) if number == signal.SIGINT else (143, 75)
    return "stopped" if ended.code in fine else f"code {ended.code}"


def ranks_verdict(ended: Ended, complete: list[str]) -> str:
    """The same for processes that torchrun started: it ends in a traceback of its own."""
    if died := re.search(r"exitcode\s*: (-6|-11|1) |SIGABRT|SIGSEGV|Fatal Python", ended.err):
        return f"a rank died: {died[0].strip()}"
    if OURS.search(ended.err):
        return f"said Traceback, code {ended.code}"
    if ended.code == 0:
        return "complete" if ended.files == complete else "files are missing"
    return "stopped" if ended.interrupted else f"failed with {ended.code}"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps cores busy within the block."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def interrupt(
    name: str, made: Path, *, times: int, seed: int = 0, forked: bool = False, first: int = 0
) -> Iterator[dict[str, Any]]:
    """Interrupts commands of a kind; gives a record of each."""
    kind = KINDS[name]
    runner = Runner(kind, made, forked=forked)
    try:
        whole = [runner.run() for _ in range(2)]  # the first one still reads files from disk
        complete, seconds = whole[-1].files, whole[-1].seconds
        for ended in whole:
            if ended.code:
                raise RuntimeError(f"{name} fails by itself with {ended.code}: {ended.err}")
        for attempt in range(first, times):
            rng = random.Random(f"{seed} {name} {forked} {attempt}")
            number = signal.SIGTERM if attempt % 4 == 3 else signal.SIGINT
            delay = rng.uniform(0.0, 1.05 * seconds)
            ended = runner.run(delay, number)
            word = verdict(kind, ended, number, complete)
            if word == "complete" and not ended.interrupted:
                seconds = 0.8 * seconds + 0.2 * ended.seconds  # others work on this machine, too
            record = {"kind": name, "forked": forked, "attempt": attempt, "verdict": word}
            record |= {"signal": number, "delay": round(delay, 3), "code": ended.code}
            record |= {"seconds": round(ended.seconds, 3), "interrupted": ended.interrupted}
            yield record if word in FINE else {**record, "err": ended.err[-8000:]}
    finally:
        runner.close()


def main() -> int:
    """Interrupts the kinds that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all if none is named")
    parser.add_argument("--times", type=int, default=500, help="how often each is interrupted")
    parser.add_argument("--forked", action="store_true", help="do the imports once and for all")
    parser.add_argument("--seed", type=int, default=0, help="chooses the moments")
    parser.add_argument("--busy", type=int, default=2, help="processes beside that use a core each")
    parser.add_argument("--out", type=Path, help="a file for a JSON line per command")
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    done: Counter[str] = Counter()
    if options.out is not None and options.out.is_file():
        before = [json.loads(line) for line in options.out.read_text().splitlines()]
        done.update(each["kind"] for each in before if each["forked"] == options.forked)
    bad = 0
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Trap: what a shell starts in the background ignores Ctrl-C, and so would the commands.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="interrupts-") as folder, busy(options.busy):
        prepare(Path(folder))
        for name in options.kinds or KINDS:
            if options.forked and KINDS[name].ranks > 1:
                continue  # torchrun starts its processes itself
            words: Counter[str] = Counter()
            for record in interrupt(
                name, Path(folder), times=options.times, seed=options.seed,
                forked=options.forked, first=done[name],
            ):  # fmt: skip
                words[record["verdict"]] += 1
                if record["verdict"] not in FINE:
                    bad += 1
                    print(f"{name} {record['attempt']}: {record['verdict']}\n{record['err']}")
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
            print(f"{name}: {dict(words)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plants faults one at a time and says which of them no test notices.

A fault is an entry of a TOML file of this folder: a `file` below `src/clozeworks`, the lines `old`
that stand there exactly once, the `new` ones in their place, and, for a fault that changes nothing
anybody could see, the sentence `equivalent` that says why. Each is planted in a copy of the source,
and the fast tests run on it until one fails: first the files that import the changed one, then
those of its area, then all others. A test has noticed the fault if it fails again, and passes on
the source as it is.

    python tests/faults/plant.py [NAMES …] [--jobs 2] [--area-only] [--out results.jsonl]

A fault that `--out` has a line about is not planted again, so that a long run can be stopped and
go on. It exits with 1 if any survived that is not equivalent.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Timer, local
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src"
# Where the tests of an area are, for those whose folder has another name.
AREAS = {
    "cli": ("commands",),
    "language_model": ("unit/inference", "commands"),
    "objectives": ("unit/objectives", "unit/calls"),
    "jobs": ("unit/jobs", "unit/calls"),
    "storage": ("unit/data", "unit/engine"),
    "families": ("unit/families", "contracts", "unit/checkpoints"),
    "": ("unit/test_config.py", "unit/test_spec.py", "unit/test_wording.py", "unit/core"),
}
# A test that the fault sends into an endless loop has noticed it, too.
MOST_SECONDS = 1500
# Each line it reads becomes a process that tests a copy of the project.
FORKS = """
import json, os, sys
import hypothesis, numpy, pytest, safetensors.torch, tokenizers, torch
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        os.dup2(os.open(order["out"], os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.chdir(order["copy"])
        source = os.environ["PYTHONPATH"] = os.path.join(order["copy"], "src")
        sys.path[:0] = [source]
        sys.dont_write_bytecode = True
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
sys.exit(pytest.main(order["words"]))
"""


@dataclass(frozen=True)
class Fault:
    """One change of the source."""

    name: str
    file: str
    old: str
    new: str
    equivalent: str = ""

    def problem(self, source: Path) -> str:
        """Why it cannot be planted; empty if it can."""
        path = source / "clozeworks" / self.file
        if not path.is_file():
            return f"{self.file} is not there"
        count = path.read_text().count(self.old)
        return "" if count == 1 else f"the lines stand {count} times in {self.file}"

    def plant(self, source: Path) -> None:
        """Writes it into a copy of the source."""
        path = source / "clozeworks" / self.file
        path.write_text(path.read_text().replace(self.old, self.new))

    def importers(self) -> list[str]:
        """The files of tests that name the changed file in an import."""
        module = "clozeworks." + self.file.removesuffix(".py").removesuffix("/__init__").replace(
            "/", "."
        )
        package, _, last = module.rpartition(".")
        imported = re.compile(
            rf"^(from {re.escape(module)} import|import {re.escape(module)}\b"
            rf"|from {re.escape(package)} import .*\b{last}\b)",
            re.MULTILINE,
        )
        files = sorted((ROOT / "tests").rglob("test_*.py"))
        files.sort(key=lambda file: last not in file.stem)  # the one that is about it comes first
        return [str(file.relative_to(ROOT)) for file in files if imported.search(file.read_text())]

    def areas(self) -> list[str]:
        """The folders of tests that are about the file."""
        area = Path(self.file).parts[0] if "/" in self.file else ""
        folders = AREAS.get(area, (f"unit/{area}",))
        return [f"tests/{each}" for each in folders if (ROOT / "tests" / each).exists()]


def faults() -> Iterator[Fault]:
    """All faults of this folder."""
    for path in sorted(HERE.glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text()).items():
            yield Fault(name=name, **fields)


def noticed(fault: Fault, *, area_only: bool) -> dict[str, Any]:
    """Runs the tests on a copy with the fault; the record says which test failed first."""
    record: dict[str, Any] = {"name": fault.name, "file": fault.file, "noticed_by": None}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        # The whole tree, for tests read the documents and the source beside them.
        unused = shutil.ignore_patterns(".git", ".venv", ".*_cache", "site", "__pycache__")
        planted = Path(shutil.copytree(ROOT, Path(folder) / "planted", ignore=unused))
        fault.plant(planted / "src")
        unsure: list[str] = []
        places = [fault.importers(), fault.areas(), [] if area_only else ["tests"]]
        while places:
            failed = first_failure(planted, places[0], unsure) if places[0] else None
            if failed is None or failed in unsure:
                places.pop(0)
                continue
            if not first_failure(ROOT, [failed]) and first_failure(planted, [failed]):
                record["noticed_by"] = failed
                break
            unsure.append(failed)
    record["unsure"] = unsure
    record["seconds"] = round(time.monotonic() - began, 1)
    return record


def first_failure(copy: Path, places: list[str], without: Sequence[str] = ()) -> str | None:
    """The first test that fails in a copy of the project; None if all pass."""
    words = ["-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *places]
    words += [f"--deselect={each}" for each in without]
    if not hasattr(_OWN, "server"):
        _OWN.server = Server()
    code, said = _OWN.server.run(copy, words)
    if code in (0, 5):  # 5: the files hold no fast test
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    return failed[1] if failed else places[0]


class Server:
    """A process that has imported what all tests need, and forks for each run of pytest."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def run(self, copy: Path, words: Sequence[str]) -> tuple[int, str]:
        """The exit code of pytest in a copy of the project, and what it printed."""
        assert self._process.stdin and self._process.stdout
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out:
            order = {"copy": str(copy), "words": words, "out": out.name}
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            child = int(self._process.stdout.readline())
            timer = Timer(MOST_SECONDS, os.kill, [child, signal.SIGKILL])
            timer.start()
            code = int(self._process.stdout.readline())
            timer.cancel()
            return code, out.read()


_OWN = local()  # what each thread has for itself


def results(out: Path | None) -> dict[str, dict[str, Any]]:
    """The records of an earlier run, by the faults' names."""
    if out is None or not out.is_file():
        return {}
    records = [json.loads(line) for line in out.read_text().splitlines()]
    return {record["name"]: record for record in records}


def survived(fault: Fault, record: dict[str, Any]) -> bool:
    """Whether no test noticed a fault that can be seen."""
    return record["noticed_by"] is None and not fault.equivalent


def main() -> int:
    """Plants the faults that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="the faults to plant; all if none is named")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    parser.add_argument("--area-only", action="store_true", help="only the tests of each area")
    parser.add_argument(
        "--out", type=Path, help="a file for a JSON line per fault; those it has are not repeated"
    )
    options = parser.parse_args()
    chosen = [fault for fault in faults() if not options.names or fault.name in options.names]
    if unknown := set(options.names) - {fault.name for fault in chosen}:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    stale = [(fault, problem) for fault in chosen if (problem := fault.problem(SOURCE))]
    for fault, problem in stale:
        print(f"stale     {fault.name}: {problem}")
    chosen = [fault for fault in chosen if fault not in {each for each, _ in stale}]
    before = results(options.out)
    survivors = [
        fault for fault in chosen if fault.name in before and survived(fault, before[fault.name])
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        tasks = {
            pool.submit(noticed, fault, area_only=options.area_only): fault
            for fault in chosen
            if fault.name not in before
        }
        for done in as_completed(tasks):
            fault, record = tasks[done], done.result()
            if survived(fault, record):
                survivors.append(fault)
            word = "noticed" if record["noticed_by"] else "SURVIVED"
            print(f"{word:<9} {fault.name} ({record['seconds']} s): {record['noticed_by']}")
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    counted = [fault for fault in chosen if not fault.equivalent]
    print(f"{len(counted) - len(survivors)} of {len(counted)} faults were noticed.")
    return 1 if survivors or stale else 0


if __name__ == "__main__":
    sys.exit(main())

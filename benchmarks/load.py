"""Loading time and memory of a BERT-base checkpoint (440 MB), side by side with transformers.

Each load happens in a fresh process, alternating between the two libraries; imports are done before
the clock starts. After loading, every weight is read once, so that lazily mapped memory counts, and
the time of that is reported too. Memory is what the process holds above its size after imports.

    python benchmarks/load.py [--quick] [--repeats 5]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="bert-mini, 2 repetitions")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--load", choices=["ours", "peer"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        print(json.dumps(load(options.load, options.folder)))
        return
    with tempfile.TemporaryDirectory() as place:
        size = "bert-mini" if options.quick else "bert-base"
        compare(make_checkpoint(Path(place), size), 2 if options.quick else options.repeats)


def compare(folder: Path, repeats: int) -> None:
    bytes_on_disk = (folder / "model.safetensors").stat().st_size / 2**20
    found: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    for turn in range(repeats + 1):
        for name in ("ours", "peer"):
            command = [sys.executable, __file__, "--load", name, "--folder", str(folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            if turn:  # the first turn warms the page cache
                found[name].append(json.loads(done.stdout.splitlines()[-1]))

    def middle(name: str, key: str) -> float:
        return statistics.median(run[key] for run in found[name])

    print(f"{bytes_on_disk:.0f} MB on disk, {repeats} repetitions, a process each")
    print(f"{'':26}{'clozeworks':>12}{'transformers':>14}")
    for key, label in (
        ("load", "load, seconds"),
        ("touched", "load and read, seconds"),
        ("memory", "peak memory, MB"),
    ):
        print(f"{label:26}{middle('ours', key):12.2f}{middle('peer', key):14.2f}")
    share = middle("ours", "memory") / bytes_on_disk
    print(
        f"{'memory / size on disk':26}{share:12.2f}{middle('peer', 'memory') / bytes_on_disk:14.2f}"
    )
    result = {
        "benchmark": "load",
        "ratio": round(middle("peer", "touched") / middle("ours", "touched"), 3),
        "ours": round(middle("ours", "touched"), 3),
        "peer": round(middle("peer", "touched"), 3),
        "unit": "s",
        "memory_share_of_size": round(share, 3),
        "memory_ratio": round(middle("ours", "memory") / middle("peer", "memory"), 3),
    }
    print(json.dumps(result))


def make_checkpoint(place: Path, size: str) -> Path:
    import clozeworks as cw

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"w{number}" for number in range(30522 - len(special))]
    (place / "tokenizer").mkdir()
    (place / "tokenizer" / "vocab.txt").write_text("\n".join([*special, *words]) + "\n")
    return cw.new(size, place / "tokenizer", heads=("pooler",)).save(place / "model")


def load(name: str, folder: Path) -> dict[str, float]:
    import torch

    if name == "ours":
        from clozeworks.language_model import load as load_model

        before, begin = memory("VmRSS"), time.perf_counter()
        network: torch.nn.Module = load_model(folder).model
    else:
        from transformers import AutoTokenizer, BertModel

        before, begin = memory("VmRSS"), time.perf_counter()
        network = BertModel.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)  # as ours does
        assert len(tokenizer) == network.config.vocab_size
    loaded = time.perf_counter() - begin
    with torch.no_grad():
        sum(parameter.sum().item() for parameter in network.parameters())
    touched = time.perf_counter() - begin
    return {"load": loaded, "touched": touched, "memory": memory("VmHWM") - before}


def memory(field: str) -> float:
    """What the process holds now (VmRSS) or has held at most (VmHWM), in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()

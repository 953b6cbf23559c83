"""Attacks `clozeworks serve`, and counts what becomes of it.

Tiny models are served by a process of its own, on loopback; clients ask what no client should, come
in crowds, leave in the middle, and the server is stopped under load.

    python tests/faults/serving.py [ATTACKS …] [--seconds 60] [--times 50] [--minutes 20]

After each attack the server must answer as before, have nothing in hand, and have written no
traceback. `schema` needs the program schemathesis, named with `--schemathesis PATH`; an environment
of its own keeps it from ours. Exits with 1 if anything was not as it should be.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from served import prepare
from server_ends import attack_failures, attack_stop
from server_load import attack_overload, attack_schema, attack_soak
from wrong_clients import attack_clients
from wrong_requests import attack_requests

ATTACKS = {
    "requests": attack_requests,
    "clients": attack_clients,
    "failures": attack_failures,
    "overload": attack_overload,
    "stop": attack_stop,
    "schema": attack_schema,
    "soak": attack_soak,
}


async def attack(names: Sequence[str], options: argparse.Namespace) -> int:
    """Runs attacks, prints their rows; returns how many were bad."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="serving-") as folder:
        made = Path(folder)
        prepare(made)
        for name in names:
            async for each in ATTACKS[name](made, options):
                bad += not each.is_fine
                print(each, flush=True)
    return bad


def main() -> int:
    """Runs the attacks that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("attacks", nargs="*", help=f"of {', '.join(ATTACKS)}; all if none is named")
    parser.add_argument("--seconds", type=float, default=60, help="of overload")
    parser.add_argument("--times", type=int, default=50, help="how often it is stopped")
    parser.add_argument("--minutes", type=float, default=20, help="of the soak")
    parser.add_argument("--examples", type=int, default=30, help="of schemathesis, per operation")
    parser.add_argument("--seeds", type=int, default=3, help="how often schemathesis is run")
    parser.add_argument("--schemathesis", help="the program; without it `schema` is left out")
    options = parser.parse_args()
    if unknown := set(options.attacks) - ATTACKS.keys():
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Trap: what a shell starts in the background ignores Ctrl-C, and so would servers.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing it has started stays
    return 1 if asyncio.run(attack(options.attacks or list(ATTACKS), options)) else 0


if __name__ == "__main__":
    sys.exit(main())

"""How much memory there is to be had."""

import os
from pathlib import Path

import torch


def available(device: torch.device | None = None) -> int | None:
    """Bytes that are free on a device, the CPU if not given; None if that is not known."""
    if device is not None and device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable"))
        return int(found.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        names = getattr(os, "sysconf_names", {})
        if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return None

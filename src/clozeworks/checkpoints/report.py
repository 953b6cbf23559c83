"""What happened while weights were loaded: grouped, counted, in sentences."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from clozeworks.wording import counted


@dataclass
class LoadReport:
    """Which weights of a folder were used, and which were not."""

    loaded: int = 0
    missing: list[str] = field(default_factory=list)
    """Our weights that the folder lacks, under their published names."""
    unexpected: list[str] = field(default_factory=list)
    """Weights of the folder that no part of the model takes."""
    misshapen: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    """Weights of another shape than the config says: (in the folder, needed)."""
    dropped: list[str] = field(default_factory=list)
    """Known buffers without information, such as position_ids."""
    duplicates: list[str] = field(default_factory=list)
    """Second copies of a weight, such as a tied decoder."""
    absent: list[str] = field(default_factory=list)
    """Parts that the architecture names and the folder has no weight of."""
    notes: list[str] = field(default_factory=list)
    """Anything else a person should know."""

    @property
    def is_fatal(self) -> bool:
        """Whether the model cannot be used with these weights."""
        return bool(self.missing or self.misshapen)

    def lines(self) -> list[str]:
        """One line per kind of event that occurred."""
        lines = [f"{counted(self.loaded, 'weight')} loaded"]
        if self.missing:
            lines.append(f"{len(self.missing):,} missing: {_grouped(self.missing)}")
        if self.misshapen:
            shapes = [
                f"{name} is {_shape(has)}, needed {_shape(needed)}"
                for name, (has, needed) in self.misshapen.items()
            ]
            more = f" and {len(shapes) - 3} more" if len(shapes) > 3 else ""
            lines.append(f"{len(shapes):,} of the wrong shape: {'; '.join(shapes[:3])}{more}")
        for names, what in (
            (self.unexpected, "unexpected, left out"), (self.dropped, "without information")
        ):  # fmt: skip
            if names:
                lines.append(f"{len(names):,} {what}: {_grouped(names)}")
        if self.duplicates:
            copies = counted(len(self.duplicates), "second copy", "second copies")
            lines.append(f"{copies}: {_grouped(self.duplicates)}")
        if self.absent:
            lines.append(f"parts without weights: {', '.join(self.absent)}")
        return lines + self.notes

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _grouped(names: Iterable[str]) -> str:
    """Names that differ only by numbers, as one entry with a count."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[re.sub(r"(?<=\.)\d+(?=\.)", "*", name)].append(name)
    entries = [
        f"{pattern} ({len(members)})" if len(members) > 1 else members[0]
        for pattern, members in groups.items()
    ]
    more = f" and {len(entries) - 6} more kinds" if len(entries) > 6 else ""
    return ", ".join(entries[:6]) + more


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape) or "a single number"

"""A model card: `README.md` in a model folder, with the hub's metadata in front."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Card:
    """What a card says.

    Attributes:
        title: Its first line.
        metadata: What a hub reads: tags, pipeline_tag, mask_token and so on.
        sections: Headings with their text, in Markdown.
    """

    title: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sections: Sequence[tuple[str, str]] = ()

    def text(self) -> str:
        """The card as Markdown with metadata."""
        # JSON is YAML, so that no name can be taken for something else.
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in self._known()]
        parts = [f"# {self.title}", *(f"## {name}\n\n{text}" for name, text in self.sections)]
        return "\n".join(["---", *lines, "---", "", "\n\n".join(parts), ""])

    def _known(self) -> list[tuple[str, Any]]:
        return [(key, value) for key, value in self.metadata.items() if value is not None]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first column to the left, numbers to the right."""
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])

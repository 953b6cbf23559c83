"""`clozeworks show`: a model's parts, sizes, files and papers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from clozeworks.errors import ClozeworksError
    from clozeworks.families.family import Family

app = App(name="clozeworks show", help_format="plaintext", version_flags=[])


@app.default
def show(
    model: str | None = None,
    /,
    *,
    heads: str | None = None,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Print a model's parts, sizes, files and papers.

    Args:
        model: A published size such as bert-base, a model folder, or a hub name. Without it the
            published sizes are listed.
        heads: For a published size: parts besides the encoder, separated by commas.
        json_text: Print the blueprint as JSON.
    """
    from clozeworks.families.family import published_sizes

    sizes = published_sizes()
    if model is None:
        _list_sizes()
        return
    if model in sizes and not Path(model).exists():
        from clozeworks.errors import UnknownName

        family = sizes[model]
        parts = _usual_parts(family, model)
        if heads is not None:
            parts = frozenset(part.strip() for part in heads.split(",") if part.strip())
        for part in sorted(parts):
            if part not in family.paths:
                raise UnknownName("head", part, family.paths)
        blueprint = family.blueprint(family.published(model), parts)
        config: Mapping[str, Any] = family.published(model)
        notes: list[str] = []
    else:
        from clozeworks.errors import HubError, SettingError
        from clozeworks.language_model import load

        if heads is not None:
            raise SettingError("--heads", heads, "a folder has the heads it has", "leave it out")
        try:
            loaded = load(model)
        except HubError as error:
            raise _with_size(error, model, list(sizes)) from error
        blueprint, config = loaded.blueprint, loaded.checkpoint.config
        family = loaded.family
        notes = [*loaded.report.lines(), f"embed: {loaded.pooling}"]
        notes += [f"prompt {name}: {text!r}" for name, text in loaded.prompts.texts.items() if text]
        if default := loaded.prompts.find():
            notes.append(f"prompt used by embed: {default}")
        if loaded.has_tokenizer:
            tokenizer = loaded.tokenizer
            entries = f"{tokenizer.size:,} entries, {tokenizer.fingerprint[:19]}"
            notes.append(f"tokenizer: {tokenizer.kind}, {entries}")
    if json_text:
        print(blueprint.to_json())
        return
    from clozeworks.checkpoints.generation import max_positions_of
    from clozeworks.core.tree import tree
    from clozeworks.display.table import aligned
    from clozeworks.wording import visible

    source = family.size_notes.get(model, family.paper)
    print(f"{model} ({family.model_type}, {source})")
    limit = max_positions_of(blueprint, config)
    print(f"texts of up to {limit:,} tokens" if limit else "texts of any length")
    rows = []
    for depth, node in tree(blueprint).walk():
        count = f"{node.parameters:,}" if node.parameters else ""
        rows.append(("  " * depth + node.label, count, node.file, node.paper))
    print(visible("\n".join([*aligned(rows, left=(0, 2, 3)), *notes]), lines=True))


def _with_size(error: "ClozeworksError", name: str, sizes: list[str]) -> "ClozeworksError":
    """The error with a hint, if the name is nearly that of a published size."""
    from clozeworks.errors import nearest

    near = nearest(name, sizes)
    hint = f" Or did you mean the published size {near!r}?" if near else ""
    return type(error)(f"{error}{hint}")


def _usual_parts(family: "Family", size: str) -> frozenset[str]:
    """The parts a size is counted with: the network, and the vocabulary head of a decoder."""
    parts = family.architectures[family.base].parts
    can_generate = family.blueprint(family.published(size), parts).can_generate
    return parts | {"vocabulary"} if can_generate else parts


def _list_sizes() -> None:
    from clozeworks.families.family import families

    for family in families().values():
        print(f"{family.model_type} ({family.paper})")
        for size in family.sizes:
            parts = _usual_parts(family, size)
            count = family.blueprint(family.published(size), parts).count()
            note = f"  ({family.size_notes[size]})" if size in family.size_notes else ""
            print(f"  {size:<24}{count:>15,} parameters{note}")
    print("See one with: clozeworks show bert-base")

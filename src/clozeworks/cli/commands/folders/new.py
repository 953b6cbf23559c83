"""`clozeworks new`: create a model folder with fresh weights."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

app = App(name="clozeworks new", help_format="plaintext", version_flags=[])


@app.default
def new(
    size: str,
    /,
    *changes: str,
    tokenizer: Path | None = None,
    out: Annotated[Path, Parameter(alias="-o")],
    heads: str | None = None,
    seed: int = 0,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Create a model folder with fresh weights, for your own tokenizer.

    Args:
        size: A published size such as bert-tiny; `clozeworks show` lists them.
        changes: Settings of config.json to change, for example hidden_size=256.
        tokenizer: A tokenizer folder; it determines the vocabulary size. Sizes whose tokens are
            bytes, such as byt5-small, need none.
        out: The output folder.
        heads: Parts besides the encoder, separated by commas; "" for none. Defaults to the
            vocabulary head, and to the decoder if the family has one (T5).
        seed: The same seed gives the same weights.
        overwrite: Replace the folder if it is not empty.
    """
    from clozeworks import language_model
    from clozeworks.checkpoints.whole_folder import check_target

    check_target(out, overwrite=overwrite)
    parts = None
    if heads is not None:
        parts = [part.strip() for part in heads.split(",") if part.strip()]
    settings = dict(_setting(change) for change in changes)
    model = language_model.new(size, tokenizer, heads=parts, seed=seed, **settings)
    model.save(out, overwrite=overwrite)
    print(f"{out}: {model.blueprint.count():,} parameters, fresh weights (seed {seed}).")
    print(f"Look at it with: clozeworks show {out}")


def _setting(text: str) -> tuple[str, Any]:
    import json

    from clozeworks.errors import SettingError

    key, separator, value = text.partition("=")
    if not separator:
        raise SettingError("changes", text, "each must be key=value, such as hidden_size=256")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value

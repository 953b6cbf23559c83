"""From what a person names to what is served."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clozeworks.errors import ClozeworksError, InputError
from clozeworks.jobs.search.index import Index
from clozeworks.language_model import LanguageModel, load
from clozeworks.search.state import is_index
from clozeworks.serve.models import SearchIndex, ServedModel

# Where published folders state the widths that their vectors may be cut to.
_WIDTHS = ("matryoshka_dimensions", "matryoshka_dims")
_WARM = "a text to begin with"


def served_models(
    sources: Mapping[str, Any],
    *,
    device: str | None = None,
    dtype: str | None = None,
    truncate_dims: Mapping[str, Sequence[int]] | None = None,
) -> list[ServedModel]:
    """Models by name.

    One that cannot be loaded says so when it is asked; the others are served.

    Args:
        sources: For each name a model or index, or its folder; of models also a hub name.
        device: Where models compute, and
        dtype: in which number type; as for `cw.load`.
        truncate_dims: For each name the widths that its vectors may be cut to, beside those that
            its folder states.

    Raises:
        InputError: If none of them can be loaded.
    """
    found: list[ServedModel] = []

    def add(name: str, model: LanguageModel) -> None:
        model.model.eval()
        widths = stated_widths(model) | {*(truncate_dims or {}).get(name, ())}
        found.append(ServedModel(name, model, truncate_dims=tuple(sorted(widths))))

    for name, source in sources.items():
        if isinstance(source, LanguageModel):
            add(name, source)
        elif isinstance(source, str | Path):
            try:
                if is_index(Path(source)):
                    opened: Any = Index.open(source)
                    found.append(ServedModel(name, index=opened))
                else:
                    model = load(source, device=device, dtype=dtype)
                    model.name = name  # clients shall know nothing of folders
                    add(name, model)
            except ClozeworksError as error:
                found.append(ServedModel(name, unloadable=str(error)))
        else:
            index: SearchIndex = source
            found.append(ServedModel(name, index=index))
    if all(each.unloadable for each in found):
        raise InputError("\n".join(each.unloadable for each in found) or "name a model to serve.")
    share_weights([each.model.model for each in found if each.model is not None])
    return found


def stated_widths(model: LanguageModel) -> set[int]:
    """The widths that the folder of a model says its vectors may be cut to."""
    stated = next(filter(None, map(model.checkpoint.config.get, _WIDTHS)), ())
    return {*map(int, stated)}


def share_weights(models: Sequence[nn.Module]) -> int:
    """Has equal weights of several models, such as those below adapters, stand in memory once.

    Returns:
        How many bytes that saves.
    """
    if len(models) < 2:
        return 0
    known: dict[tuple[Any, ...], Tensor] = {}
    saved = 0
    with torch.no_grad():
        for model in models:
            for parameter in model.parameters():
                data = parameter.data
                key = (data.dtype, data.shape, data.device, _digest(data))
                first = known.setdefault(key, data)
                if first.data_ptr() != data.data_ptr():
                    parameter.data = first
                    saved += data.numel() * data.element_size()
    return saved


def _digest(data: Tensor) -> bytes:
    raw = data.detach().cpu().contiguous().view(torch.uint8).numpy()
    return hashlib.blake2b(raw.tobytes(), digest_size=16).digest()


def warm_up(models: Sequence[ServedModel]) -> None:
    """Asks each model once, so that the first request does not wait for what happens only once."""
    for each in models:
        if each.model is not None:
            with suppress(ClozeworksError):
                each.model.embed(_WARM)


def bytes_of(model: LanguageModel) -> int:
    """The memory of a model's weights, each counted once."""
    seen = {
        each.data_ptr(): each.numel() * each.element_size() for each in model.model.parameters()
    }
    return sum(seen.values())

"""Whether there is room for what a run writes."""

import shutil
from pathlib import Path

from clozeworks.errors import OutputError
from clozeworks.wording import counted, size_in_words


def check_disk(folder: Path, snapshot: int, keep: int, model: int, models: int = 1) -> str:
    """Refuses to begin what would fill the disk.

    Args:
        folder: Where the run writes.
        snapshot: Bytes of a snapshot.
        keep: How many snapshots are kept.
        model: Bytes of a model.
        models: How many models come at the end.

    Returns:
        What is needed and what is free, in a sentence.

    Raises:
        OutputError: If there is not enough room.
    """
    # One more than is kept stands there while the newest is written; the models come at the end.
    needed = snapshot * (keep + 1) + model * models
    free = shutil.disk_usage(folder).free
    each = "the model" if models == 1 else counted(models, "model")
    if free < needed:
        raise OutputError(
            f"{folder} has {size_in_words(free)} free; {keep + 1} snapshots and {each} need "
            f"{size_in_words(needed)}; make room, keep fewer (checkpointing.keep), or choose "
            "another disk."
        )
    return (
        f"Snapshots and model need {size_in_words(needed)} of disk, {size_in_words(free)} are free."
    )

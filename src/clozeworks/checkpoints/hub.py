"""Model names: a local folder, or a name on the hub. The only file that touches the network."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from clozeworks.errors import HubError, UnfinishedRun
from clozeworks.runtime.terminal import drawing_output

# Weights as safetensors, settings as JSON, vocabularies as text or SentencePiece, and the template
# of chats: nothing that can run. A star also stands for folders, such as 1_Pooling.
_WANTED = ["*.json", "*.safetensors", "vocab.txt", "merges.txt", "*.model", "chat_template.jinja"]
PATIENCE = 3.0  # seconds
# What a run writes first, and what it writes last.
_RECIPE, _MODEL = "recipe.json", "model"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def resolve(name: str | Path, *, revision: str | None = None) -> Path:
    """The local folder of a model: the folder itself, or a downloaded copy of a hub model.

    Raises:
        UnfinishedRun: If it is the model of a run that is not finished.
        HubError: If there is no such model.
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    if isinstance(name, str) and name.lower().startswith(("http://", "https://")):
        raise HubError(
            f"{name} is the address of a server; the weights of its models, which are needed here, "
            "stay there; give a model folder or hub name."
        )
    if path.name == _MODEL and (path.parent / _RECIPE).is_file():
        raise UnfinishedRun(str(name), str(path.parent))
    if isinstance(name, Path) or not _NAME.fullmatch(name):
        raise HubError(f"{name} is not a folder here and cannot be a hub name; check the spelling.")
    return _download(name, revision)


def _hub_answers(name: str, revision: str | None) -> bool:
    """Whether the hub says within seconds that it has the model; an error if it does not."""
    from huggingface_hub import HfApi, errors

    try:
        # Trap: a download asks again and again, for minutes, where a network swallows all packets.
        HfApi().model_info(name, revision=revision, timeout=PATIENCE)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError):
        raise
    except Exception:  # offline, no network, a server in trouble: the cache may do
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars, unless on a terminal or set in the environment."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    stated = "HF_HUB_DISABLE_PROGRESS_BARS" in os.environ
    if stated or sys.stderr.isatty() or are_progress_bars_disabled():
        with redirect_stderr(drawing_output(sys.stderr)):
            yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


def _download(name: str, revision: str | None) -> Path:
    from huggingface_hub import errors, snapshot_download

    where = f"{name} is not a folder here"
    try:
        cached_only = not _hub_answers(name, revision)
        with _quiet():
            folder = snapshot_download(
                name, revision=revision, allow_patterns=_WANTED, local_files_only=cached_only
            )
        return Path(folder)
    except errors.GatedRepoError as error:
        raise HubError(
            f"{where}, and the hub model {name!r} asks for permission; request access on its page, "
            f"then log in with: hf auth login."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(
            f"{where}, and the hub model {name!r} has no revision {revision!r}; name another."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"{where}, and the hub has no model {name!r} (or it is private); check the spelling, "
            f"or log in with: hf auth login."
        ) from error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        raise HubError(
            f"{where}, it is not in the local cache, and the hub cannot be reached; give the path "
            f"of a model folder, or go online and try again."
        ) from error
    except Exception as error:  # the library's network library has errors of its own
        raise HubError(
            f"{where}, and fetching {name!r} from the hub failed ({_first_line(error)}); try again "
            f"later, or give the path of a model folder."
        ) from error


def upload(
    folder: Path,
    name: str,
    *,
    private: bool | None,
    message: str,
    revision: str | None,
    token: str | None,
) -> str:
    """Uploads the files of a folder to a model repository, which is made if need be.

    Returns:
        The address of the commit.

    Raises:
        HubError: If the hub refuses it or cannot be reached.
    """
    from huggingface_hub import HfApi, errors

    if not _NAME.fullmatch(name):
        raise HubError(f"{name!r} cannot be a hub name; write user/model.")
    api = HfApi(token=token)
    try:
        with _quiet():
            # A name without a user becomes one of the user's own.
            repository = api.create_repo(name, private=private, exist_ok=True).repo_id
            commit = api.upload_folder(
                repo_id=repository, folder_path=folder, commit_message=message, revision=revision
            )
        return str(commit)
    except (errors.LocalTokenNotFoundError, errors.HfHubHTTPError) as error:
        status = getattr(getattr(error, "response", None), "status_code", 401)
        if status in (401, 403):
            raise HubError(
                f"the hub does not let you write {name!r}; log in with: hf auth login, with a "
                "token that may write, and check whose the name is."
            ) from error
        raise HubError(
            f"uploading {name!r} to the hub failed ({_first_line(error)}); try again later."
        ) from error
    except Exception as error:  # the library's network library has errors of its own
        raise HubError(
            f"the hub cannot be reached to upload {name!r} ({_first_line(error)}); go online and "
            "try again, or save a folder."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

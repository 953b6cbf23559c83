"""`clozeworks serve`: models over HTTP."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import check_minimum
from clozeworks.errors import InputError, SettingError, UnsupportedError

if TYPE_CHECKING:
    from clozeworks.serve.models import ServedModel

app = App(name="clozeworks serve", help_format="plaintext", version_flags=[])
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """How much is taken on, and for whom.

    Attributes:
        keys: A file of API keys: the sha256 of one in each line. Who has none is refused.
        cors: An origin whose pages may ask from a browser; may be given several times.
        tokens: The most tokens of work in hand; more is refused until there is room (429).
        requests: The most requests that are answered at a time.
        inputs: The most texts of a request.
        body_mb: The most megabytes of a request.
        timeout: Seconds that a request may take.
        drain: Seconds that requests have to end once the server is stopped.
        refuse_token_ids: Take texts alone, no token ids, which could be those of another tokenizer.
        log_texts: Write what was asked to the log, too.
    """

    keys: Path | None = None
    cors: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    tokens: int = 131_072
    requests: int = 256
    inputs: int = 10_000
    body_mb: int = 8
    timeout: float = 120.0
    drain: float = 60.0
    refuse_token_ids: Annotated[bool, Parameter(negative="")] = False
    log_texts: Annotated[bool, Parameter(negative="")] = False


@app.default
def serve(
    *models: Annotated[str, Parameter(required=True)],
    port: Annotated[int, Parameter(alias="-p")] = 8000,
    host: str = "127.0.0.1",
    truncate_dims: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: ServingOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Answer every task of models over HTTP.

    Clients of OpenAI, Hugging Face, text-embeddings-inference, Cohere and infinity are understood,
    and so is every command: clozeworks classify http://127.0.0.1:8000 FILE. Ctrl-C or SIGTERM lets
    what was accepted end.

    Args:
        models: Models, each a folder or hub name, or NAME=FOLDER; or indexes to search.
        port: The port; 0 for any that is free.
        host: The address to listen at; 0.0.0.0 lets other machines ask.
        truncate_dims: Widths that the vectors of a model may be cut to: NAME=64,128.
        dry_run: Print what would be served, and the memory it takes.
        options: How much is taken on, and for whom.
        computing: Where models compute.
    """
    options, computing = options or ServingOptions(), computing or ComputingOptions()
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"serving needs {error.name}, which is not installed; run: pip install "
            "'clozeworks[serve]'"
        ) from error
    import sys

    from clozeworks.serve.application import answering
    from clozeworks.serve.limits import Keys, ServerLimits
    from clozeworks.serve.loading import served_models
    from clozeworks.serve.server import log_to, run
    from clozeworks.wording import counted

    check_minimum(1, tokens=options.tokens, requests=options.requests, inputs=options.inputs)
    check_minimum(1, body_mb=options.body_mb)
    if not 0 <= port < 1 << 16:
        raise SettingError("--port", port, "it must be between 0 and 65,535")
    limits = ServerLimits(
        body_bytes=options.body_mb << 20,
        inputs=options.inputs,
        requests=options.requests,
        tokens=options.tokens,
        timeout=options.timeout,
        drain=options.drain,
        token_ids=not options.refuse_token_ids,
    )
    keys = Keys() if options.keys is None else Keys.read(options.keys)
    served = served_models(
        _named(models), device=computing.device, dtype=computing.dtype,
        truncate_dims=_widths(truncate_dims),
    )  # fmt: skip
    for line in _overview(served):
        print(line, file=sys.stdout if dry_run else sys.stderr)
    if dry_run:
        return
    if host not in _LOOPBACK and not keys.are_needed:
        print(
            f"Anybody who reaches {host} can ask; --keys FILE lets only those ask who have a key.",
            file=sys.stderr,
        )
    # Whoever needs no key is on this machine, and no page whose name leads here.
    alone = host in _LOOPBACK and not keys.are_needed
    server = answering(
        served,
        limits,
        keys,
        options.cors,
        log_texts=options.log_texts,
        host=host if alone else None,
    )
    log_to()

    def ready(address: str) -> None:
        print(f"Serving at {address}; stop with Ctrl-C.", file=sys.stderr, flush=True)
        example = _example(served, address, needs_key=keys.are_needed)
        print(f"Try it: {example}", file=sys.stderr, flush=True)

    if lost := run(server, host, port, ready=ready):
        print(f"Stopped; {counted(lost, 'request')} got no answer.", file=sys.stderr)
        sys.exit(1)
    print("Stopped; everything that was accepted was answered.", file=sys.stderr)


def _named(models: tuple[str, ...]) -> dict[str, str]:
    """Each folder by its name: as given, or the last part of the folder that says something."""
    found: dict[str, str] = {}
    for each in models:
        name, equals, folder = each.partition("=")
        if not equals or Path(each).exists():
            name, folder = "", each
        path = Path(folder)
        parts = [part for part in path.resolve().parts if part not in ("model", "/")]
        name = name or (parts[-1] if path.exists() and parts else folder.rpartition("/")[2])
        if not name or "/" in name:
            raise InputError(f"{each}: {name!r} is not a name; write NAME=FOLDER.")
        if name in found:
            raise InputError(
                f"{name} names two models; give one of them another name: NAME={folder}."
            )
        found[name] = folder
    return found


def _widths(given: tuple[str, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in given:
        name, equals, numbers = each.partition("=")
        parts = numbers.split(",")
        if not equals or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
            raise SettingError("--truncate-dims", each, "it must be NAME=64,128")
        found[name] = [int(part) for part in parts]
    return found


def _overview(served: "list[ServedModel]") -> list[str]:
    """A line for each model: what it can be asked, and what it takes."""
    from clozeworks.display.table import aligned
    from clozeworks.serve.loading import bytes_of
    from clozeworks.wording import size_in_words

    rows = [("name", "answers", "memory")]
    reasons = [f"{each.name}: {each.unloadable}" for each in served if each.unloadable]
    total = 0
    for each in served:
        size = 0 if each.model is None else bytes_of(each.model)
        total += size
        what = "cannot be loaded" if each.unloadable else ", ".join(each.abilities)
        memory = "" if each.model is None else size_in_words(size)
        rows.append((each.name, what, memory))
    rows.append(("", "together, at most", size_in_words(total)))
    return [*aligned(rows, left=(0, 1)), *reasons]


def _example(served: "list[ServedModel]", address: str, *, needs_key: bool) -> str:
    """A line that asks the first model something."""
    import shlex

    from clozeworks.serve.native import native_endpoints
    from clozeworks.wording import as_json

    model = next(each for each in served if not each.unloadable)
    ability = model.abilities[0]
    path = f"/v1/{ability}"
    endpoint = next(each for each in native_endpoints() if each.path == path)
    body = dict(next(iter(endpoint.examples.values())))
    if sum(ability in each.abilities for each in served) > 1:
        body["model"] = model.name
    key = "-H 'Authorization: Bearer KEY' " if needs_key else ""
    return f"curl {address}{path} {key}-d {shlex.quote(as_json(body))}"

"""Models as a deployment of Ray Serve: replicas that each run the same application.

    from ray import serve
    from clozeworks.serve.ray import deployment

    serve.run(deployment({"spam": "runs/spam/model"}, num_replicas=2))

Ray starts and ends replicas, and hands each request to one of them. A replica is what
`clozeworks serve` is: it loads the models, and its scheduler computes for all its requests. Ray
lets only five requests into a replica at a time if nothing is said, which would leave batches
small; here it is as many as the limits allow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks.errors import MissingExtra, SettingError
from clozeworks.serve.limits import Keys, ServerLimits


def deployment(
    models: Mapping[str, str | Path],
    *,
    num_replicas: int | str = 1,
    device: str | None = None,
    dtype: str | None = None,
    truncate_dims: Mapping[str, Sequence[int]] | None = None,
    limits: ServerLimits | None = None,
    keys: Keys | None = None,
    origins: Sequence[str] = (),
    log_texts: bool = False,
    **options: Any,
) -> Any:
    """An application of Ray Serve, for `serve.run` or `serve run module:app`.

    Args:
        models: For each name the folder of a model or index, or the hub name of a model. Every
            machine of the cluster must have the folder at the same path.
        num_replicas: How many replicas; "auto" for as many as there is work for.
        device: As for `create_app`, as are those that follow.
        dtype: In which number type models compute.
        truncate_dims: For each name the widths that its vectors may be cut to.
        limits: How much each replica takes on.
        keys: Who may ask; everybody if not given.
        origins: Pages of these origins may ask from a browser.
        log_texts: Whether the log holds what was asked.
        options: Options of `ray.serve.deployment`, such as `ray_actor_options={"num_cpus": 4}`:
            a replica computes on as many cores as Ray gives it, one if nothing is said.

    Raises:
        MissingExtra: If ray is not installed.
        SettingError: If a model is not named by its folder or hub name.
    """
    try:
        from ray import serve
    except ImportError as error:
        raise MissingExtra("A deployment of Ray Serve", "ray[serve]", "ray") from error
    sources = {name: _found_anywhere(name, source) for name, source in models.items()}
    limits = limits or ServerLimits()

    def build() -> Any:
        """In a replica, when it starts."""
        from clozeworks.serve.application import create_app

        return create_app(
            sources,
            device=device,
            dtype=dtype,
            truncate_dims=truncate_dims,
            limits=limits,
            keys=keys,
            origins=origins,
            log_texts=log_texts,
        )

    chosen = {
        "name": "clozeworks",
        "num_replicas": num_replicas,
        "max_ongoing_requests": limits.requests,
        "graceful_shutdown_timeout_s": limits.drain,
        **options,
    }
    return serve.deployment(**chosen)(serve.ingress(build)(_Replica)).bind()


class _Replica:
    """What Ray asks of a replica beside requests."""

    app: Any  # which Ray sets

    def check_health(self) -> None:
        """Fails once the scheduler has ended, so that Ray starts another replica.

        Raises:
            RuntimeError: If it has.
        """
        fatal = self.app.state.answering.scheduler.fatal
        if fatal is not None:
            raise RuntimeError(f"computing failed again and again ({fatal}).")


def _found_anywhere(name: str, source: Any) -> str:
    """A folder by its whole path, since replicas work in folders of their own.

    Raises:
        SettingError: If it is neither a folder nor the name of one.
    """
    if not isinstance(source, str | Path):
        rule = "replicas load models themselves; name its folder, or its hub name"
        raise SettingError(f"models.{name}", type(source).__name__, rule)
    return str(Path(source).resolve()) if Path(source).exists() else str(source)

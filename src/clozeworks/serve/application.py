"""Models as an application: the command serves it, Ray runs it, and so does any ASGI server.

    from clozeworks.serve import create_app

    app = create_app({"spam": "runs/spam/model"})  # uvicorn module:app

The application computes from its startup to its shutdown, which an ASGI server announces to it
(lifespan); one that is mounted below another is announced nothing, so that one hands it on:
`FastAPI(lifespan=app.router.lifespan_context)`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI

from clozeworks.serve.app import Answering
from clozeworks.serve.dialects.hub_inference import hub_endpoints
from clozeworks.serve.dialects.openai import openai_endpoints
from clozeworks.serve.dialects.rerankers import reranker_endpoints
from clozeworks.serve.dialects.tei import tei_endpoints
from clozeworks.serve.dialects.zero_shot import zero_shot_endpoints
from clozeworks.serve.endpoint import Endpoint
from clozeworks.serve.inside.endpoints import look_endpoints
from clozeworks.serve.limits import Keys, ServerLimits
from clozeworks.serve.loading import served_models, warm_up
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.native import native_endpoints
from clozeworks.serve.page_files import page_endpoint
from clozeworks.serve.scheduler import Scheduler

# Trap: oneDNN compiles a kernel for each number of tokens, and keeps 1,024 of them, as torch does
# once more for each thread: hundreds of megabytes after an hour of texts of all lengths. Both look
# here when they first compute. With fewer, equally many requests are answered in a second.
_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KERNELS = "64"


def create_app(
    models: Mapping[str, Any],
    *,
    device: str | None = None,
    dtype: str | None = None,
    truncate_dims: Mapping[str, Sequence[int]] | None = None,
    limits: ServerLimits | None = None,
    keys: Keys | None = None,
    origins: Sequence[str] = (),
    log_texts: bool = False,
) -> FastAPI:
    """An application that answers what `clozeworks serve` answers.

    Models are loaded at once; each process has its own. Its lifespan can be gone through once.

    Args:
        models: For each name a model or index, or its folder; of models also a hub name.
        device: Where models compute, and
        dtype: in which number type; as for `cw.load`.
        truncate_dims: For each name the widths that its vectors may be cut to.
        limits: How much is taken on.
        keys: Who may ask; everybody if not given.
        origins: Pages of these origins may ask from a browser.
        log_texts: Whether the log holds what was asked.

    Raises:
        InputError: If none of the models can be loaded.
    """
    served = served_models(models, device=device, dtype=dtype, truncate_dims=truncate_dims)
    return answering(served, limits, keys, origins, log_texts=log_texts).app()


def answering(
    served: Sequence[ServedModel],
    limits: ServerLimits | None = None,
    keys: Keys | None = None,
    origins: Sequence[str] = (),
    *,
    log_texts: bool = False,
    host: str | None = None,
) -> Answering:
    """What answers for models that are loaded; each is asked once, which takes a moment."""
    limit_kernel_caches()
    warm_up(served)
    limits = limits or ServerLimits()
    return Answering(
        ServedModels(served),
        Scheduler(most_tokens=limits.tokens),
        all_endpoints(),
        limits=limits,
        keys=keys,
        origins=origins,
        log_texts=log_texts,
        host=host,
    )


def limit_kernel_caches() -> None:
    """Has libraries keep few kernels; before they first compute."""
    for name in _KERNEL_CACHES:
        os.environ.setdefault(name, _KERNELS)


def all_endpoints(more: Sequence[Endpoint] = ()) -> list[Endpoint]:
    """Everything that can be asked, in every dialect; where paths clash, the first that fits.

    Args:
        more: What else there is.
    """
    endpoints = [
        *native_endpoints(),
        *look_endpoints(),
        *zero_shot_endpoints(),
        *openai_endpoints(),
        *tei_endpoints(),
        *reranker_endpoints(),
        *hub_endpoints(),
        *more,
    ]
    return [*endpoints, page_endpoint(endpoints)]

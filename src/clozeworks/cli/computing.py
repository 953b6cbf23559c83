"""Where a command computes: here, in which number type, or on a server."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from clozeworks.errors import SettingError
from clozeworks.serve.client.addresses import is_address

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel
    from clozeworks.serve.client.remote_model import RemoteModel

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
KEY = "CLOZEWORKS_KEY"
"""The environment variable that holds the key of a server."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComputingOptions:
    """Where a model computes, and in which number type.

    Attributes:
        device: cpu, cuda, cuda:1 (the second GPU), mps (Apple), or auto for the best one that is
            available.
        dtype: The number type to compute in; auto for that of the stored weights.
    """

    device: Annotated[str, Parameter(alias="-d")] = "auto"
    dtype: Dtype = "auto"

    def load(self, model: str, usual: Dtype = "auto") -> "LanguageModel":
        """Loads a model to a device.

        Args:
            model: A model folder or hub name.
            usual: The number type if none is asked for.
        """
        from clozeworks.language_model import load

        dtype = usual if self.dtype == "auto" else self.dtype
        return load(model, device=self.device, dtype=dtype)

    def open(self, model: str) -> "LanguageModel | RemoteModel":
        """Loads a model, or connects to the server where it is, for commands that only ask.

        Args:
            model: A model folder or hub name; or `http://HOST:PORT`, with `#NAME` for one of
                several models. The key is that of the environment variable `CLOZEWORKS_KEY`.
        """
        if not is_address(model):
            return self.load(model)
        for name in ("device", "dtype"):
            if (value := getattr(self, name)) != "auto":
                rule = "the model is asked on a server, which decided it"
                raise SettingError(f"--{name}", value, rule, "leave it out")
        from clozeworks.serve.client.remote_model import connect

        return connect(model, key=os.environ.get(KEY) or None)

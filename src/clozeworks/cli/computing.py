"""Where a command computes, and in which number type."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


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

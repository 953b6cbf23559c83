"""What all of our own endpoints share: the model that is asked, and the shape of an answer."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from clozeworks.serve.endpoint import Call

_ModelName = Annotated[
    str | None, Field(description="The name of a model; not needed if only one can do it.")
]


class NativeBody(BaseModel):
    """What every body may hold."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: _ModelName = None


def answer_of(call: Call, model: str, outputs: list[Any], *, one: bool) -> dict[str, Any]:
    """What a model said of one input, or of several."""
    return {"model": model, "outputs": outputs[0] if one else outputs, "usage": usage_of(call)}


def usage_of(call: Call) -> dict[str, int]:
    """The tokens that were really read and written."""
    return {"input_tokens": call.work.tokens, "output_tokens": call.work.written}

"""Labels that a model was never trained on: does the text entail "This example is about …"?

Paper: Yin, Hay & Roth 2019. The text is the premise, a sentence made of each label the hypothesis.
One label of several: softmax over the entailment logits of all labels; several labels that may
hold: softmax over entailment and contradiction of each. So transformers computes it, too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.errors import InputError
from clozeworks.serve.dialects.label_scores import row_logits
from clozeworks.serve.dialects.meant import meant
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.models import COMPARE, ServedModel, UnknownModel
from clozeworks.serve.native_body import NativeBody, usage_of
from clozeworks.serve.replies import NATIVE
from clozeworks.tasks.classify import softmax

TEMPLATE = "This example is {}."
_ENTAILMENT, _CONTRADICTIONS = "entail", ("contradict", "not_entail", "not entail", "non_entail")


def entailment_model(call: Call, name: str | None) -> ServedModel:
    """The model that is meant, which was trained on entailment.

    Raises:
        UnknownModel: If there is none, or several and none is named.
    """
    able = call.models.able(COMPARE) if name is None else []
    knowing = [each for each in able if _entailment(each.tasks[COMPARE]) is not None]
    return knowing[0] if len(knowing) == 1 else meant(call, name, COMPARE)


def zero_shot(
    call: Call,
    served: ServedModel,
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    template: str | None = None,
    several: bool = False,
) -> list[dict[str, float]]:
    """The probability of each label for each text, the highest first.

    Args:
        call: The request.
        served: A model that compares two texts and knows entailment.
        texts: The texts.
        labels: The labels.
        template: A sentence with `{}` where the label goes.
        several: Whether several labels may hold; otherwise probabilities sum to 1.

    Raises:
        InputError: If there is no label, or the template has no place for it.
        UnknownModel: If the model does not know entailment.
        TooMuch: If there are too many pairs of a text and a label, or too much to read.
    """
    call.check_count(len(texts) * len(labels), "pairs of a text and a label")
    sentence = TEMPLATE if template is None else template
    if not labels or not all(label.strip() for label in labels):
        raise InputError("labels is empty, or one of them is; name at least one label.")
    if "{}" not in sentence:
        raise InputError(
            f"the template is {sentence!r:.80}; the label goes where {{}} stands in it; write it."
        )
    labels = list(dict.fromkeys(labels))
    asked = len(sentence) * len(labels) + sentence.count("{}") * sum(map(len, labels))
    read = sum(map(len, texts)) * len(labels) + asked * len(texts)
    call.check_characters(read, "each text is read with the template and each label")
    task = served.tasks[COMPARE]
    names: tuple[str, ...] = task.head_labels or ()
    place = _entailment(task)
    if place is None:
        raise UnknownModel(
            f"{served.name} cannot label without training: none of its labels ({', '.join(names)}) "
            "is entailment; serve a model that was trained on natural language inference."
        )
    pairs = [(text, sentence.replace("{}", label)) for text in texts for label in labels]
    if not pairs:
        return []
    logits, _ = row_logits(served.language_model(), task, pairs)
    table = logits.reshape(len(texts), len(labels), len(names))
    chances = _chances(table, place, _contradiction(names, place), several=several)
    return [
        dict(sorted(zip(labels, row, strict=True), key=lambda each: -each[1]))
        for row in chances.tolist()
    ]


def _chances(
    logits: NDArray[np.float64], entailment: int, contradiction: int, *, several: bool
) -> NDArray[np.float64]:
    """Probabilities of labels, (texts, labels), from logits, (texts, labels, C)."""
    if several or logits.shape[1] == 1:
        return softmax(logits[:, :, [contradiction, entailment]])[:, :, 1]
    return softmax(logits[:, :, entailment])


def _entailment(task: AnyTask) -> int | None:
    names = [name.lower() for name in task.head_labels or ()]
    found = [place for place, name in enumerate(names) if name.startswith(_ENTAILMENT)]
    return found[0] if found and len(names) > 1 else None


def _contradiction(names: Sequence[str], entailment: int) -> int:
    found = [n for n, name in enumerate(names) if name.lower().startswith(_CONTRADICTIONS)]
    # Compat: unnamed, it is at the other end of the labels.
    return found[0] if found else (-1 if entailment == 0 else 0)


class ZeroShotBody(NativeBody):
    """Texts, and labels that the model was not trained on."""

    inputs: str | list[str] = Field(description="One text or several.")
    labels: list[str] = Field(min_length=1, description="What the texts may be about.")
    template: str = Field(TEMPLATE, description="A sentence with {} where the label goes.")
    multi_label: bool = Field(False, description="Whether several labels may hold.")


def zero_shot_endpoints() -> list[Endpoint]:
    """The native endpoint."""
    body = {"inputs": "The cat sat on the mat.", "labels": ["animals", "politics"]}
    return [
        Endpoint(
            path="/v1/zero-shot", summary="give texts labels that no model was trained on",
            answer=_labelled, dialect=NATIVE, body=ZeroShotBody,
            examples={"one": body, "several": {**body, "multi_label": True}},
        )
    ]  # fmt: skip


def _labelled(call: Call, body: ZeroShotBody) -> dict[str, Any]:
    served = entailment_model(call, body.model)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    found = zero_shot(
        call, served, texts, body.labels, template=body.template, several=body.multi_label
    )
    outputs = [{"label": next(iter(each)), "scores": each} for each in found]
    one = isinstance(body.inputs, str)
    return {
        "model": served.name,
        "outputs": outputs[0] if one else outputs,
        "usage": usage_of(call),
    }

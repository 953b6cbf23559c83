"""Several objectives at once, each with its weight.

Paper: Devlin et al. 2019 (BERT adds two), Joshi et al. 2020 (SpanBERT adds two).
Data: what the parts need; all that state `examples` must state the same.
Masks and predicts: the parts work on one batch in the order given, so what one masks the next one
sees masked. Each has its own random numbers: a mask is the same with a second part beside it.
Loss: the weighted sum of the parts' means, from one forward pass. Each part has its own count.
Relations: `Sum` for parts that share their texts; weights other than 1 through `Weighted`. Parts
that want different texts are different runs.
Example: `Sum(parts=(MaskedLM(), Weighted(objective=NextSentence(), weight=0.5)))`, or in a recipe
`{kind = "sum", parts = [{kind = "masked_lm"}, {kind = "next_sentence"}]}`.
"""

import dataclasses
from collections import Counter
from typing import Annotated, ClassVar

from torch import Tensor

from clozeworks import config
from clozeworks.core.loss import LossTerms
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import BatchTensors
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.objective import Composite, Objective, Wrapper
from clozeworks.objectives.span_boundary import SpanBoundary
from clozeworks.spec import Above, Advice, spec


@spec
class Weighted(Wrapper):
    """One objective that counts more or less."""

    paper: ClassVar[str] = "Devlin et al. 2019 (all weights 1)"

    objective: Objective
    weight: Annotated[float, Above(0), Advice("leave the objective out instead")]

    def __post_init__(self) -> None:
        _check_shares_forward(self.objective)

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The inner loss terms with another weight."""
        terms = super().losses(model, hidden_states, tensors)
        return {
            name: dataclasses.replace(term, weight=term.weight * self.weight)
            for name, term in terms.items()
        }


@spec
class Sum(Composite):
    """Several objectives on the same texts."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    parts: tuple[Objective, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise SettingError("parts", (), "a sum needs at least one objective", "add one")
        twice = [name for name, times in Counter(self.loss_names).items() if times > 1]
        if twice:
            raise SettingError(
                "parts",
                self.loss_names,
                f"each objective may stand once in a sum, and {twice[0]!r} stands twice",
                "remove one of them",
            )
        for part in self.parts:
            _check_shares_forward(part)
        self._check_examples()
        self._check_boundaries()

    def _check_examples(self) -> None:
        wanted = [(part, part.examples) for part in self.parts if part.examples is not None]
        for part, other in wanted[1:]:
            first, examples = wanted[0]
            if other != examples:
                raise SettingError(
                    "examples",
                    Stated(_written(other)),
                    f"the parts of a sum share their examples, and {', '.join(part.loss_names)} "
                    f"needs these, {', '.join(first.loss_names)} {_written(examples)}",
                    "give both the same examples, or one of them none",
                )

    def _check_boundaries(self) -> None:
        spans = False
        for part in leaves(self):
            if isinstance(part, MaskedLM):
                spans = isinstance(part.hide, Spans)
            if isinstance(part, SpanBoundary) and not spans:
                raise SettingError(
                    "parts",
                    self.loss_names,
                    "span_boundary predicts masked spans",
                    "put masked_lm with hide = spans before it",
                )

    @property
    def inner(self) -> tuple[Objective, ...]:
        """Its parts."""
        return self.parts


def leaves(objective: Objective) -> list[Objective]:
    """The objectives inside composite ones, in order."""
    if isinstance(objective, Composite):
        return [leaf for part in objective.inner for leaf in leaves(part)]
    return [objective]


def _check_shares_forward(part: Objective) -> None:
    if part.owns_forward:
        raise SettingError(
            "kind",
            part.name,
            "it runs the model in a way that no other objective can read, so it stands neither in "
            "a sum nor under a weight",
            "make it the whole objective",
        )


def _written(examples: ExamplesSpec | None) -> str:
    """Examples as a recipe writes them."""
    pairs = config.plain(examples).items()
    return "{" + ", ".join(f"{key} = {value!r}" for key, value in pairs) + "}"

"""A whole network beside the tower, for objectives that train two at once.

Paper: Clark et al. 2020 (ELECTRA): a generator that shares the token and position tables.
The idea: to everything else a second network is a head like any other. Its weights are drawn,
updated, kept in snapshots and left out of the saved model by the rules that all heads follow; what
it shares with the model is tied as a decoder is.
Trap: what is tied inside the second network must follow when its original is shared.
Used by: the replaced tokens objective.

Shapes: N tokens, W width of the second network.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.spec import spec


@spec
class SecondNetwork(HeadSpec):
    """A network of its own, some of whose parameters are the model's."""

    paper: ClassVar[str] = "Clark et al. 2020"

    network: Blueprint
    shared_tables: tuple[str, ...] = ()
    """Names of parameters that both networks have in common."""

    def build(self, width: int, embeddings: Embeddings) -> "SecondNetworkModule":
        """Makes the module; it has the same size whatever the width."""
        return SecondNetworkModule(Model(self.network.check()))

    def shared(self) -> dict[str, str]:
        """The parameters in common, and what is tied to them inside."""
        names = {f"network.{name}": name for name in self.shared_tables}
        return names | {
            f"network.heads.{name}.{copy}": original
            for name, head in self.network.heads.items()
            for copy, original in head.shared().items()
            if original in self.shared_tables
        }


class SecondNetworkModule(nn.Module):
    """Holds the network."""

    def __init__(self, network: Model) -> None:
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, layout: Layout, types: Tensor | None = None) -> Tensor:
        """Token numbers (N,) to this network's vectors (N, W)."""
        hidden_states: Tensor = self.network(ids, layout, types)
        return hidden_states

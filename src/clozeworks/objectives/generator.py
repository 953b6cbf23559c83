"""The small network that replaces tokens: a share of the one that must notice.

Paper: Clark et al. 2020 (ELECTRA): a quarter or a third of the width, as many layers. A generator
as strong as its discriminator is said to make replacements too hard to tell.
He et al. 2023 (DeBERTa v3): the same width, half of the layers, and a mask decoder.
Where paper and code differ: the code has attention heads 64 wide and an inner width of four times
the width; here both follow the discriminator, which for the published sizes is the same.
"""

import dataclasses
from math import gcd
from typing import Annotated

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.convolution import Convolution
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp, Mlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.part import PartSpec
from clozeworks.core.layers.tower import Layer, Tower
from clozeworks.errors import UnsupportedError
from clozeworks.objectives.decoded_lm import check_decodable
from clozeworks.spec import Above, Advice, AtLeast, AtMost, spec


@spec
class Generator:
    """How large the generator is beside its discriminator."""

    width: Annotated[
        float,
        Above(0),
        AtMost(1),
        Advice("a generator is not wider than its discriminator; 0.25 is what ELECTRA has"),
    ] = 0.25
    """The share of the width, of the attention heads and of the feed-forward's inner width."""
    layers: Annotated[
        float, Above(0), AtMost(1), Advice("a generator has no more layers than its discriminator")
    ] = 1.0
    """The share of the layers."""
    positions: (
        Annotated[int, AtLeast(1), Advice("leave it out for a generator without a mask decoder")]
        | None
    ) = None
    """Places of the mask decoder it answers through (DeBERTa); None: it has none."""

    def blueprint(self, of: Blueprint, *, same_tables: bool) -> Blueprint:
        """The generator of a discriminator: its parts made smaller, and a vocabulary head.

        Args:
            of: The discriminator.
            same_tables: Whether its token vectors must be as wide as the discriminator's.
        """
        width = max(1, round(of.width * self.width))
        norm = of.embeddings.norm or LayerNorm(eps=1e-12)
        heads: dict[str, HeadSpec] = {HEAD: Vocabulary(norm=norm)}
        if self.positions is not None:
            heads[DECODER] = MaskDecoder(count=self.positions)
        made = Blueprint(
            width=width,
            embeddings=_embeddings(of, width if not same_tables else None, width),
            encoder=self._tower(of, width),
            heads=heads,
        ).check()
        if self.positions is not None:
            check_decodable(made)
        return made

    def _tower(self, of: Blueprint, width: int) -> Tower:
        tower = of.encoder
        layers = tuple(self._layer(layer, of.width, width) for layer in tower.layers)
        depth = max(1, round(len(tower.running_order()) * self.layers))
        if tower.order is None:
            return dataclasses.replace(tower, layers=layers[:depth])
        return dataclasses.replace(tower, layers=layers, order=tower.order[:depth])

    def _layer(self, layer: Layer, before: int, width: int) -> Layer:
        # Every way of joining the residual stream has a part; its other fields stay.
        return tuple(
            dataclasses.replace(sub, part=self._part(sub.part, before, width))  # type: ignore[type-var]
            for sub in layer
        )

    def _part(self, part: PartSpec, before: int, width: int) -> PartSpec:
        if isinstance(part, SelfAttention):
            # Heads stay as wide as they are where that goes, so there are fewer of them.
            most = max(1, width // (part.head_width or before // part.heads))
            heads = next(count for count in range(most, 0, -1) if width % count == 0)
            narrower = (before // part.heads) / (width // heads)
            scale = None if part.scale is None else part.scale * narrower**0.5
            kv_heads = None if part.kv_heads is None else gcd(heads, part.kv_heads)
            return dataclasses.replace(part, heads=heads, kv_heads=kv_heads, scale=scale)
        if isinstance(part, Mlp | GatedMlp):
            return dataclasses.replace(part, inner=max(1, round(part.inner * self.width)))
        if isinstance(part, Convolution) and width % part.groups == 0:
            return part
        raise UnsupportedError(
            f"generator.width is {self.width}; how a {type(part).__name__} becomes smaller is not "
            "known; use another family."
        )


def _embeddings(of: Blueprint, own_width: int | None, width: int) -> Embeddings:
    """The discriminator's embeddings, their tables as wide as its or of a width of their own."""
    tables = own_width or of.embeddings.width or of.width
    return dataclasses.replace(of.embeddings, width=None if tables == width else tables)

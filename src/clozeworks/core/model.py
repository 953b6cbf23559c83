"""A built blueprint: tokens in, tokens out, and heads to ask; a decoder that answers.

Shapes: N tokens, B texts, W width.
"""

from torch import Tensor, nn

from clozeworks.core.attention.kv_cache_protocol import KVCache
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import AttentionSource, ForwardContext, Trace
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.layers.two_stream import unseen
from clozeworks.core.layout import Layout


class Model(nn.Module):
    """Embeddings, a tower, and heads by name."""

    def __init__(self, blueprint: Blueprint) -> None:
        super().__init__()
        self.blueprint = blueprint
        width = blueprint.width
        self.embeddings = blueprint.embeddings.build(width)
        self.encoder = blueprint.encoder.build(width)
        self.decoder = blueprint.decoder.build(width) if blueprint.decoder else None
        self.pooler = blueprint.pooler.build(width) if blueprint.pooler else None
        self.heads = nn.ModuleDict(
            {
                name: head.build(width, blueprint.embeddings)
                for name, head in blueprint.heads.items()
            }
        )
        self.tie()

    def tied(self) -> dict[str, str]:
        """Names of parameters that are the same as another: copy to original."""
        return {
            f"heads.{name}.{copy}": original
            for name, head in self.blueprint.heads.items()
            for copy, original in head.shared().items()
        }

    def tie(self) -> None:
        """Makes tied parameters one object; needed again after parameters were replaced."""
        for copy, original in self.tied().items():
            owner, _, name = copy.rpartition(".")
            setattr(self.get_submodule(owner), name, self.get_parameter(original))

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        types: Tensor | None = None,
        trace: Trace | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Contextual vectors of all tokens.

        Args:
            ids: Token numbers of all texts, one after the other, (N,).
            layout: Where the texts begin and end.
            types: Segment type of each token, (N,); all 0 if not given.
            trace: Keeps hidden states and attention weights if given.
            cache: What earlier passes over these texts left, if there were any; this one's is
                added.

        Returns:
            The tokens as the tower leaves them, (N, W).
        """
        assert ids.shape == (layout.total,), "the layout does not belong to these tokens"
        x = self.embeddings(ids, layout, types)
        hidden: Tensor = self.encoder(x, ForwardContext(layout, trace, types, cache=cache))
        return hidden

    def decode(
        self,
        ids: Tensor,
        layout: Layout,
        encoded: AttentionSource,
        trace: Trace | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Contextual vectors of the tokens of answers.

        Args:
            ids: Token numbers of all answers, one after the other, (N,).
            layout: Where the answers begin and end.
            encoded: The texts they answer, as the encoder left them.
            trace: Keeps hidden states and attention weights if given.
            cache: What earlier passes over these answers left, if there were any.

        Returns:
            The tokens as the decoder leaves them, (N, W).
        """
        assert self.decoder is not None, "this model has no decoder"
        x = self.embeddings(ids, layout)
        context = ForwardContext(layout, trace, encoded=encoded, cache=cache)
        hidden: Tensor = self.decoder(x, context)
        return hidden

    def pooled(self, hidden: Tensor, layout: Layout) -> Tensor:
        """The pooler's vector of each text, (B, W)."""
        assert self.pooler is not None, "this model has no pooler"
        vectors: Tensor = self.pooler(hidden[self.pooler.places(layout, hidden.device)])
        return vectors

    def scores(
        self, head: str, hidden: Tensor, layout: Layout, asked: Tensor | None = None
    ) -> Tensor:
        """What a head says of the texts, or of the asked tokens (n,) only."""
        reads = self.blueprint.heads[head].reads
        assert reads != "given", f"{head} is asked by the objective that brings it"
        if reads == "texts":
            said: Tensor = self.heads[head](hidden, layout)
            return said
        if reads == "tokens_and_first":
            return self._beside_first(head, hidden, layout, asked)
        if reads == "pooled":
            source = self.pooled(hidden, layout)
        else:
            source = hidden if asked is None else hidden[asked]
        answer: Tensor = self.heads[head](source)
        return answer

    def _beside_first(
        self, head: str, hidden: Tensor, layout: Layout, asked: Tensor | None
    ) -> Tensor:
        rows = layout.rows(hidden.device)
        first = layout.first(hidden.device)[rows if asked is None else rows[asked]]
        tokens = hidden if asked is None else hidden[asked]
        answer: Tensor = self.heads[head](tokens, hidden[first])
        return answer


def asked_vectors(
    model: Model, ids: Tensor, layout: Layout, types: Tensor | None, asked: Tensor
) -> Tensor:
    """What a vocabulary head reads at the asked places.

    That is the mask decoder's word if there is one, and the query stream's if one can begin.

    Args:
        model: A model.
        ids: Token numbers of all texts, (N,).
        layout: Where the texts begin and end.
        types: Segment type of each token, (N,); all 0 if not given.
        asked: Where words are asked for, in ascending order, (n,).

    Returns:
        A vector for each, (n, W).
    """
    if START in model.heads:
        return unseen(model, ids, layout, types, asked)
    if DECODER not in model.heads:
        plain: Tensor = model(ids, layout, types)[asked]
        return plain
    x = model.embeddings(ids, layout, types)
    vectors: Tensor = model.heads[DECODER](model.encoder, x, layout, types, asked)
    return vectors

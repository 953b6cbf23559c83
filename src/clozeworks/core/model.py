"""A built blueprint: tokens in, hidden states out, heads, and a decoder if there is one.

Shapes: N tokens, B texts, W width.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from clozeworks.core.attention.attention import AttentionModule
from clozeworks.core.attention.kv_cache import KVCache
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import AttentionSource, ForwardContext, Trace
from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.heads.sentence_vectors import NAME as SENTENCE
from clozeworks.core.heads.sentence_vectors import SentenceVectorsModule
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.heads.vocabulary import VocabularyHead
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import EmbeddingsModule
from clozeworks.core.layers.sublayer import NormedModule, ResidualModule
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
        for module in self.heads.values():
            if isinstance(module, Head):
                module.attach(self.pooler)
        self.tie()

    def set_head(self, name: str, head: HeadSpec | None, module: nn.Module | None = None) -> None:
        """Puts a head into a built model, in place of one of the same name, or takes it out."""
        heads = {key: value for key, value in self.blueprint.heads.items() if key != name}
        if name in self.heads:
            del self.heads[name]
        if head is not None and module is not None:
            heads[name] = head
            self.heads[name] = module
        self.blueprint = replace(self.blueprint, heads=heads)

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
        """The hidden states of all tokens as heads read them, (N, W).

        Args:
            ids: Token numbers of all texts, one after the other, (N,).
            layout: Where the texts begin and end.
            types: Segment type of each token, (N,); all 0 if not given.
            trace: Keeps the encoder's hidden states and attention weights if given.
            cache: Keys and values of earlier passes over these texts; those of this one are added.
        """
        return self.for_heads(self.encode(ids, layout, types, trace, cache), ids, layout)

    def for_heads(self, encoded: Tensor, ids: Tensor, layout: Layout) -> Tensor:
        """What heads read, (N, W): the encoder's hidden states, as they are."""
        return encoded

    @property
    def computes_some(self) -> bool:
        """Whether heads can have the hidden states of some tokens without all others."""
        return self.blueprint.encoder.computes_some

    def first_tokens(self, ids: Tensor, layout: Layout, types: Tensor | None = None) -> Tensor:
        """The hidden states of each text's first token as heads read them, (B, W).

        The last layer computes nothing else, if it can be had so.
        """
        if not self.computes_some:
            return self(ids, layout, types)[layout.first(ids.device)]  # type: ignore[no-any-return]
        x = self.embeddings(ids, layout, types)
        first = layout.first(ids.device)
        return self.encoder.at(x, ForwardContext(layout, types=types), first)

    def encode(
        self,
        ids: Tensor,
        layout: Layout,
        types: Tensor | None = None,
        trace: Trace | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """The encoder's hidden states of all tokens, (N, W); see `forward`."""
        assert ids.shape == (layout.total,), "the layout does not belong to these tokens"
        x = self.embeddings(ids, layout, types)
        hidden_states: Tensor = self.encoder(x, ForwardContext(layout, trace, types, cache=cache))
        return hidden_states

    def decode(
        self,
        ids: Tensor,
        layout: Layout,
        encoded: AttentionSource,
        trace: Trace | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """The decoder's hidden states of answers to the texts that were encoded, (N, W)."""
        assert self.decoder is not None, "this model has no decoder"
        x = self.embeddings(ids, layout)
        context = ForwardContext(layout, trace, encoded=encoded, cache=cache)
        hidden_states: Tensor = self.decoder(x, context)
        return hidden_states

    @property
    def drops(self) -> bool:
        """Whether anything is dropped in training."""
        return any(p > 0 for p in self._dropouts())

    def set_dropout(self, p: float) -> None:
        """Drops so much in training: of embeddings, of what sub-layers add, of attention weights.

        The blueprint, and so what is saved, stays as it is.
        """
        for module in self.modules():
            if isinstance(module, EmbeddingsModule | NormedModule | ResidualModule):
                module.dropout.p = p
            elif isinstance(module, AttentionModule):
                module.dropout = p

    def _dropouts(self) -> Iterator[float]:
        for module in self.modules():
            if isinstance(module, Dropout):
                yield module.p
            elif isinstance(module, AttentionModule):
                yield module.dropout

    def head(self, name: str) -> Head:
        """The head of this name, which needs hidden states alone."""
        head = self.heads[name]
        assert isinstance(head, Head), f"{name} is run by the objective that brings it"
        return head

    @property
    def sentence(self) -> SentenceVectorsModule | None:
        """What makes vectors of texts, if the model has more for that than a plain pooling."""
        head = self.heads[SENTENCE] if SENTENCE in self.heads else None  # noqa: SIM401 (no get)
        assert isinstance(head, SentenceVectorsModule | None)
        return head

    @property
    def vocabulary(self) -> VocabularyHead:
        """The head that makes a logit for every entry of the vocabulary."""
        head = self.heads[VOCABULARY]
        assert isinstance(head, VocabularyHead)
        return head


class RereadingModel(Model):
    """A model whose heads read its decoder, which is shown the text again, one position later."""

    def __init__(self, blueprint: Blueprint, start: int) -> None:
        super().__init__(blueprint)
        self.start = start

    @property
    def computes_some(self) -> bool:
        """No: the decoder reads all that the encoder makes."""
        return False

    def for_heads(self, encoded: Tensor, ids: Tensor, layout: Layout) -> Tensor:
        """What heads read, (N, W): the decoder's hidden states of the same text."""
        is_first = layout.positions(ids.device) == 0
        shifted = torch.where(is_first, self.start, ids.roll(1))
        return self.decode(shifted, layout, AttentionSource(encoded, layout))


def hidden_states_to_read(
    model: Any, ids: Tensor, layout: Layout, types: Tensor | None, *, first: bool
) -> tuple[Tensor, Layout]:
    """What heads read, and where texts begin in it: all tokens, or the first of each alone.

    Where first tokens are all that is read, the last layer computes no others if it can.
    """
    # Trap: what is compiled is the forward.
    if first and isinstance(model, Model) and model.computes_some:
        return model.first_tokens(ids, layout, types), Layout([1] * len(layout))
    return model(ids, layout, types), layout


def hidden_states_at(
    model: Model, ids: Tensor, layout: Layout, types: Tensor | None, positions: Tensor
) -> Tensor:
    """What a vocabulary head reads at some positions (n,) in ascending order, (n, W).

    That is what the mask decoder makes if there is one, and the query stream if one can begin.
    """
    if START in model.heads:
        return unseen(model, ids, layout, types, positions)
    if DECODER not in model.heads:
        plain: Tensor = model(ids, layout, types)[positions]
        return plain
    x = model.embeddings(ids, layout, types)
    vectors: Tensor = model.heads[DECODER](model.encoder, x, layout, types, positions)
    return vectors

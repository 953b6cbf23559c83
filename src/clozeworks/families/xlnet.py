"""XLNet: an encoder that learned to predict tokens in every order, with relative positions.

Paper: Yang, Dai, Yang, Carbonell, Salakhutdinov, Le 2019.
The idea: instead of hiding tokens behind a mask, permute the order in which they are predicted.
A second stream of queries, which knows positions and not tokens, exists in pre-training only
(`core/two_stream.py`); what is used afterwards is a post-norm encoder with the attention of
Transformer-XL. There are no absolute positions and no longest text; `<sep>` and `<cls>` stand at
the end, and the last token speaks for its text.
Where paper and code differ: the released model computes GELU's tanh form, Hugging Face's config
says `gelu` and computes the exact one, and this file does as the config says. Backward copies of
the data (`bi_data`) turn distances around for half of a batch; texts here are read forward only.
Compat: projections are published as (width, heads, head width). Dropout stands once more after
the last layer; here it belongs to the heads. For answers `XLNetForQuestionAnsweringSimple` has two
pointers, and `XLNetForQuestionAnswering` the paper's head. Where the query stream begins is kept
through fine-tuning if a folder has it, and filling gaps asks that stream; a model trained otherwise
need not have it, and transformers then draws one that nothing reads.
"""

from typing import Any

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Causal, Full, MaskSpec
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.answer_beam import AnswerBeam
from clozeworks.core.heads.pooled import PooledClasses, Pooler
from clozeworks.core.heads.query_start import QueryStart
from clozeworks.core.heads.tokens import TokenClasses
from clozeworks.core.heads.vocabulary import PlainVocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import Mlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PostNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.transformer_xl import TransformerXl
from clozeworks.families import bert
from clozeworks.families.family import (
    ANSWER_HEAD,
    BEAM_HEAD,
    CHOICE_HEAD,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.gpt2 import spelled
from clozeworks.families.weights import Form, rules
from clozeworks.text.tokenizer.styles import ClosedUnigramStyle

# The first text, the second, and the token that speaks for both.
TYPES = 3
MASKS: dict[str, MaskSpec] = {"bi": Full(), "uni": Causal()}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an XLNet config."""
    config.refuse("untie_r", [True], "all layers would share their three biases")
    config.refuse("bi_data", [False], "half of each batch would be read backwards")
    config.refuse("same_length", [False], "tokens would lose sight of the far past")
    config.own_positions("relative, as in Transformer-XL")
    width = config.whole("d_model", 1024)
    heads = config.heads("n_head", 16, "d_model", width)
    if config.whole("d_head", width // heads) != width // heads:
        raise config.complaint(
            "d_head", f"it must be d_model divided by n_head, {width // heads}; leave it out."
        )
    direction = config.get("attn_type") or "bi"
    if not isinstance(direction, str) or direction not in MASKS:
        raise config.complaint("attn_type", f"it must be one of {', '.join(MASKS)}; correct it.")
    dropout = config.probability("dropout", 0.1)
    norm = LayerNorm(eps=config.number("layer_norm_eps", 1e-12))
    attention = SelfAttention(
        heads=heads,
        mask=MASKS[direction],
        positions=TransformerXl(farthest=config.above_zero("clamp_len"), dropout=dropout),
        dropout=dropout,
        bias=False,
    )
    feed_forward = Mlp(
        inner=config.whole("d_inner", 4096),
        activation=config.activation("ff_activation"),
        dropout=dropout,
    )
    layer = (
        PostNorm(part=attention, norm=norm, dropout=dropout),
        PostNorm(part=feed_forward, norm=norm, dropout=dropout),
    )
    possible: dict[str, HeadSpec] = {
        "vocabulary": PlainVocabulary(
            tied=config.truth("tie_word_embeddings", True), dropout=dropout
        ),
        "classes": PooledClasses(
            count=config.classes(), dropout=config.probability("summary_last_dropout", 0.1)
        ),
        CHOICE_HEAD: PooledClasses(
            count=1, dropout=config.probability("summary_last_dropout", 0.1)
        ),
        "tokens": TokenClasses(count=config.classes(), dropout=dropout),
        ANSWER_HEAD: TokenClasses(count=2, dropout=dropout),
        BEAM_HEAD: AnswerBeam(norm=norm, starts=config.whole("start_n_top", 5), dropout=dropout),
        "query_start": QueryStart(),
    }
    return Blueprint(
        width=width,
        embeddings=Embeddings(
            tokens=config.whole("vocab_size", 32000),
            types=TYPES,
            types_added=False,
            dropout=dropout,
        ),
        encoder=Tower(layers=(layer,) * config.depth("n_layer", 24)),
        pooler=_summary(config, dropout) if "pooler" in parts else None,
        heads={name: head for name, head in possible.items() if name in parts},
    )


def _summary(config: Config, dropout: float) -> Pooler:
    """The vector of a text that its classes are read from."""
    config.refuse("summary_type", ["last"], "another token would speak for its text")
    config.refuse("summary_use_proj", [True], "the summary would have no layer of its own")
    config.refuse("summary_activation", ["tanh"], "the summary would have another activation")
    return Pooler(activation="tanh", dropout=dropout, token="last")


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of an XLNet blueprint."""
    attention, feed_forward = blueprint.encoder.layers[0]
    part = attention.part
    farthest = getattr(getattr(part, "positions", None), "farthest", None)
    config = {
        "vocab_size": blueprint.embeddings.tokens,
        "d_model": blueprint.width,
        "n_layer": len(blueprint.encoder.layers),
        "n_head": getattr(part, "heads", None),
        "d_inner": getattr(feed_forward.part, "inner", None),
        "ff_activation": spelled(getattr(feed_forward.part, "activation", "gelu")),
        "attn_type": "uni" if getattr(part, "mask", None) == MASKS["uni"] else "bi",
        "clamp_len": -1 if farthest is None else farthest,
        "dropout": blueprint.embeddings.dropout,
        "layer_norm_eps": getattr(attention.norm, "eps", None),  # type: ignore[attr-defined]
    }
    return config | head_keys(
        blueprint.heads,
        ("tie_word_embeddings", "vocabulary", "tied"),
        ("summary_last_dropout", "classes", "dropout"),
        ("summary_last_dropout", CHOICE_HEAD, "dropout"),
        ("num_labels", "classes", "count"),
        ("num_labels", "tokens", "count"),
        ("start_n_top", BEAM_HEAD, "starts"),
    )


# Our projections and the published ones.
_PROJECTIONS = (
    ("query", "q"),
    ("key", "k"),
    ("value", "v"),
    ("output", "o"),
    ("positions.project", "r"),
)


def forms(config: Config) -> list[Form]:
    """Projections by head: (width, heads, head width) for every one, the output's among them."""
    heads = config.whole("n_head", 16)
    inward = [
        Form(
            f".rel_attn.{theirs}",
            ("weight",),
            lambda tensor: [tensor.flatten(1).T],
            lambda pieces: pieces[0].T.reshape(pieces[0].shape[1], heads, -1),
        )
        for ours, theirs in _PROJECTIONS
        if ours != "output"
    ]
    outward = Form(
        ".rel_attn.o",
        ("weight",),
        lambda tensor: [tensor.flatten(1)],
        lambda pieces: pieces[0].reshape(len(pieces[0]), heads, -1),
    )
    start = Form(
        "mask_emb",
        ("vector",),
        lambda tensor: [tensor.flatten()],
        lambda pieces: pieces[0].view(1, 1, -1),
    )
    return [*inward, outward, start]


_ATTENTION, _FEED_FORWARD = (
    "encoder.layers.{layer}." + name for name in ("attention", "feed_forward")
)

BODY = rules(
    ("embeddings.tokens.weight", "word_embedding.weight"),
    ("heads.query_start.vector", "mask_emb:vector"),
    ("heads.query_start", "mask_emb"),
    *(
        (f"{_ATTENTION}.part.{ours}.weight", f"layer.{{layer}}.rel_attn.{theirs}:weight")
        for ours, theirs in _PROJECTIONS
    ),
    # The same as a whole: in a file they go by these names.
    *(
        (f"{_ATTENTION}.part.{ours}", f"layer.{{layer}}.rel_attn.{theirs}")
        for ours, theirs in _PROJECTIONS
    ),
    (f"{_ATTENTION}.part.positions.content_bias", "layer.{layer}.rel_attn.r_w_bias"),
    (f"{_ATTENTION}.part.positions.distance_bias", "layer.{layer}.rel_attn.r_r_bias"),
    (f"{_ATTENTION}.part.positions.segment_bias", "layer.{layer}.rel_attn.r_s_bias"),
    (f"{_ATTENTION}.part.positions.segments", "layer.{layer}.rel_attn.seg_embed"),
    (f"{_ATTENTION}.norm.{{kind}}", "layer.{layer}.rel_attn.layer_norm.{kind}"),
    (f"{_FEED_FORWARD}.part.up.{{kind}}", "layer.{layer}.ff.layer_1.{kind}"),
    (f"{_FEED_FORWARD}.part.down.{{kind}}", "layer.{layer}.ff.layer_2.{kind}"),
    (f"{_FEED_FORWARD}.norm.{{kind}}", "layer.{layer}.ff.layer_norm.{kind}"),
)

HEAD = (
    *rules(
        ("heads.vocabulary.decoder.{kind}", "lm_loss.{kind}"),
        ("pooler.dense.{kind}", "sequence_summary.summary.{kind}"),
    ),
    *bert.TOKENS,
    *bert.ANSWER,
    *rules(
        (f"heads.{BEAM_HEAD}.start.{{kind}}", "start_logits.dense.{kind}"),
        (f"heads.{BEAM_HEAD}.end_dense.{{kind}}", "end_logits.dense_0.{kind}"),
        (f"heads.{BEAM_HEAD}.end_norm.{{kind}}", "end_logits.LayerNorm.{kind}"),
        (f"heads.{BEAM_HEAD}.end.{{kind}}", "end_logits.dense_1.{kind}"),
        (f"heads.{BEAM_HEAD}.none_dense.{{kind}}", "answer_class.dense_0.{kind}"),
        (f"heads.{BEAM_HEAD}.none.{{kind}}", "answer_class.dense_1.{kind}"),
    ),
)


CLASSES, CHOICE = (
    rules((f"heads.{name}.project.{{kind}}", "logits_proj.{kind}"))
    for name in ("classes", CHOICE_HEAD)
)


def _size(layers: int, width: int) -> dict[str, Any]:
    return {
        "n_layer": layers,
        "d_model": width,
        "n_head": width // 64,
        "d_inner": width * 4,
        "ff_activation": "gelu",
        "vocab_size": 32000,
        "summary_last_dropout": 0.1,
    }


FAMILY = Family(
    model_type="xlnet",
    paper="Yang et al. 2019",
    prefix="transformer.",
    base="XLNetModel",
    architectures={
        "XLNetModel": architecture(),
        "XLNetLMHeadModel": architecture("vocabulary"),
        "XLNetForSequenceClassification": architecture("pooler", "classes", rules=CLASSES),
        "XLNetForTokenClassification": architecture("tokens"),
        "XLNetForQuestionAnsweringSimple": architecture(ANSWER_HEAD),
        "XLNetForQuestionAnswering": architecture(BEAM_HEAD),
        "XLNetForMultipleChoice": architecture("pooler", CHOICE_HEAD, rules=CHOICE),
    },
    body=BODY,
    head=HEAD,
    forms=forms,
    extras=frozenset({"query_start"}),
    sizes={"xlnet-base": _size(12, 768), "xlnet-large": _size(24, 1024)},
    style=ClosedUnigramStyle(),
    read=read,
    write=write,
)

"""T5, T5 v1.1, ByT5 and UL2: an encoder that reads a text, a decoder that writes the answer.

Paper: Raffel et al. 2020; Shazeer 2020 (the gated form of v1.1); Xue et al. 2022 (ByT5); Tay et al.
2022 (UL2).
The idea: every task is text in, text out. Norms by the root mean square stand before the parts,
nothing has a bias, and a score by distance, the same in all layers of a tower, is all that is known
of positions.
Where paper and code differ: scores are not divided by the square root of the head's width; initial
weights of the queries are smaller instead.
Trap: in v1.0 one table serves encoder, decoder and output, and what the output reads is divided by
the square root of the width; in v1.1 the output has a table of its own and nothing is divided.
Compat: newer configs say `tie_word_embeddings = true` in both cases and tell them apart by
`scale_decoder_outputs`; the weights say whether there is a second table. Classes and answers are
read from the decoder, which is shown the text once more, one position later, classes at the last
`</s>`; here that is the last token of the text, which a tokenizer of T5 ends so. Tags are read from
the encoder.
"""

from collections.abc import Sequence
from typing import Any

from clozeworks.core.attention.attention import CrossAttention, SelfAttention
from clozeworks.core.attention.masks import Causal, Full
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import PooledClasses, Pooler
from clozeworks.core.heads.tokens import TokenClasses
from clozeworks.core.heads.vocabulary import PlainVocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp, Mlp
from clozeworks.core.layers.norm import RmsNorm
from clozeworks.core.layers.sublayer import PartSpec, PreNorm
from clozeworks.core.layers.tower import Layer, Tower
from clozeworks.core.positions.bucketed import Bucketed, BucketTable
from clozeworks.families.family import (
    ACTIVATIONS,
    ANSWER_HEAD,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
)
from clozeworks.families.gpt2 import spelled
from clozeworks.families.weights import Rule, rules
from clozeworks.text.tokenizer.styles import T5_STYLE

# The published feed-forward networks: activation, and whether a second path gates the first.
# Compat: `gated-gelu` means the approximation by tanh, `gelu` the exact function.
FEED_FORWARDS = {
    **{name: (ours, False) for name, ours in ACTIVATIONS.items()},
    **{f"gated-{name}": (ours, True) for name, ours in ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
_TWICE = "feed_forward_proj says otherwise; leave it out, or make them agree."
DECODER = "decoder"
# Heads that read the decoder, which reads the text once more.
REREADING = frozenset({"classes", ANSWER_HEAD})


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a T5 config."""
    depth = config.depth("num_layers", 6)
    dropout = config.probability("dropout_rate", 0.1)
    width = config.whole("d_model", 512)
    decoder = _tower(config, config.depth("num_decoder_layers", depth), is_decoder=True)
    return Blueprint(
        width=width,
        embeddings=Embeddings(tokens=config.whole("vocab_size", 32_128), dropout=dropout),
        encoder=_tower(config, depth, is_decoder=False),
        decoder=decoder if DECODER in parts else None,
        rereads=_start(config) if DECODER in parts and parts & REREADING else None,
        pooler=_pooler(config) if "pooler" in parts else None,
        heads=_heads(config, parts),
    )


def _start(config: Config) -> int:
    """The token that a decoder begins with."""
    return config.whole("decoder_start_token_id", 0, minimum=0)


def _pooler(config: Config) -> Pooler:
    return Pooler(dropout=config.probability("classifier_dropout", 0.0), token="last")


def _tower(config: Config, depth: int, *, is_decoder: bool) -> Tower:
    norm = RmsNorm(eps=config.number("layer_norm_epsilon", 1e-6))
    dropout = config.probability("dropout_rate", 0.1)
    heads = config.whole("num_heads", 8)
    shape: dict[str, Any] = {
        "heads": heads,
        "head_width": config.whole("d_kv", 64),
        "dropout": dropout,
        "bias": False,
        "scale": 1.0,
    }
    attention = SelfAttention(
        mask=Causal() if is_decoder else Full(), positions=Bucketed(), **shape
    )
    inner: tuple[PartSpec, ...] = (CrossAttention(**shape),) if is_decoder else ()
    layer: Layer = tuple(
        PreNorm(part=part, norm=norm, dropout=dropout)
        for part in (attention, *inner, _feed_forward(config, dropout))
    )
    table = BucketTable(
        heads=heads,
        both_sides=not is_decoder,
        count=config.whole("relative_attention_num_buckets", 32),
        farthest=config.whole("relative_attention_max_distance", 128),
    )
    return Tower(layers=(layer,) * depth, final_norm=norm, positions=table, dropout=dropout)


def _feed_forward(config: Config, dropout: float) -> PartSpec:
    activation, gated = config.one_of("feed_forward_proj", FEED_FORWARDS, "relu")
    # Compat: newer configs say it twice, and there the second statement would count.
    if config.activation("dense_act_fn", spelled(activation)) != activation:
        raise config.complaint("dense_act_fn", _TWICE)
    if config.truth("is_gated_act", gated) != gated:
        raise config.complaint("is_gated_act", _TWICE)
    inner = config.whole("d_ff", 2048)
    if gated:
        return GatedMlp(inner=inner, activation=activation, dropout=dropout)
    return Mlp(inner=inner, activation=activation, bias=False, dropout=dropout)


def _heads(config: Config, parts: Parts) -> dict[str, HeadSpec]:
    tied = config.truth("tie_word_embeddings", True)
    scaled = config.truth("scale_decoder_outputs", tied)
    dropout = config.probability("classifier_dropout", 0.0)
    possible: dict[str, HeadSpec] = {
        "vocabulary": PlainVocabulary(tied=tied, bias=False, scaled=scaled),
        "tokens": TokenClasses(count=config.classes(), dropout=dropout),
        "classes": PooledClasses(count=config.classes(), dropout=dropout),
        ANSWER_HEAD: TokenClasses(count=2),
    }
    return {name: head for name, head in possible.items() if name in parts}


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a T5 blueprint."""
    tower = blueprint.encoder
    attention, feed_forward = tower.layers[0][0].part, tower.layers[0][-1].part
    kind = (getattr(feed_forward, "activation", ""), isinstance(feed_forward, GatedMlp))
    names = {value: key for key, value in reversed(FEED_FORWARDS.items())}
    head = blueprint.heads.get("vocabulary")
    config = {
        "vocab_size": blueprint.embeddings.tokens,
        "d_model": blueprint.width,
        "d_kv": getattr(attention, "head_width", None),
        "d_ff": getattr(feed_forward, "inner", None),
        "num_heads": getattr(attention, "heads", None),
        "num_layers": len(tower.layers),
        "num_decoder_layers": len((blueprint.decoder or tower).layers),
        "relative_attention_num_buckets": getattr(tower.positions, "count", None),
        "relative_attention_max_distance": getattr(tower.positions, "farthest", None),
        "layer_norm_epsilon": getattr(tower.final_norm, "eps", None),
        "dropout_rate": blueprint.embeddings.dropout,
        "feed_forward_proj": names.get(kind, kind[0]),
        "tie_word_embeddings": getattr(head, "tied", True),
        "scale_decoder_outputs": getattr(head, "scaled", True),
        "is_encoder_decoder": blueprint.decoder is not None,
    }
    if blueprint.rereads is not None:
        config["decoder_start_token_id"] = blueprint.rereads
    return config | head_keys(
        blueprint.heads,
        ("num_labels", "tokens", "count"),
        ("num_labels", "classes", "count"),
        ("classifier_dropout", "tokens", "dropout"),
        ("classifier_dropout", "classes", "dropout"),
    )


def _layer_rules(tower: str, parts: Sequence[tuple[str, str]]) -> tuple[Rule, ...]:
    """The names of a tower's layers: our part and the published one, in running order."""
    projections = {"query": "q", "key": "k", "value": "v", "output": "o"}
    pairs = []
    for index, (ours, theirs) in enumerate(parts):
        left = f"{tower}.layers.{{layer}}.{ours}"
        right = f"{tower}.block.{{layer}}.layer.{index}"
        inside = {"down": "wo"} if theirs == "DenseReluDense" else projections
        pairs.append((f"{left}.norm.weight", f"{right}.layer_norm.weight"))
        pairs += [
            (f"{left}.part.{name}.weight", f"{right}.{theirs}.{short}.weight")
            for name, short in inside.items()
        ]
    return rules(*pairs)


SELF, CROSS, WIDE = (
    ("attention", "SelfAttention"),
    ("cross_attention", "EncDecAttention"),
    ("feed_forward", "DenseReluDense"),
)
TABLE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
BODY = (
    *rules(
        ("embeddings.tokens.weight", "shared.weight"),
        ("encoder.positions.table.weight", f"encoder.{TABLE}"),
        ("decoder.positions.table.weight", f"decoder.{TABLE}"),
        ("encoder.norm.weight", "encoder.final_layer_norm.weight"),
        ("decoder.norm.weight", "decoder.final_layer_norm.weight"),
    ),
    *_layer_rules("encoder", (SELF, WIDE)),
    *_layer_rules(DECODER, (SELF, CROSS, WIDE)),
)


def _spellings(config: Config) -> Sequence[Rule]:
    """What widens goes by one name or by two."""
    gated = config.one_of("feed_forward_proj", FEED_FORWARDS, "relu")[1]
    names = {"up": "wi_1", "gate": "wi_0"} if gated else {"up": "wi"}
    return rules(
        *(
            (
                f"{tower}.layers.{{layer}}.feed_forward.part.{ours}.weight",
                f"{tower}.block.{{layer}}.layer.{index}.DenseReluDense.{theirs}.weight",
            )
            for tower, index in (("encoder", 1), (DECODER, 2))
            for ours, theirs in names.items()
        )
    )


def stds(blueprint: Blueprint) -> dict[str, float]:
    """Initial weights that make up for scores without a scale."""
    attention, feed_forward = (blueprint.encoder.layers[0][index].part for index in (0, -1))
    width, head_width = blueprint.width, getattr(attention, "head_width", None) or 1
    inner = getattr(feed_forward, "inner", 1)
    heads = getattr(attention, "heads", 1)
    return {
        "embeddings.tokens.weight": 1.0,
        "*.query.weight": (width * head_width) ** -0.5,
        "*.output.weight": (heads * head_width) ** -0.5,
        "*.part.down.weight": inner**-0.5,
        # Compat: the output's own table, too, as in t5x; transformers draws it as wide as the
        # embeddings, from which a first loss of several times that of guessing comes.
        "*.weight": width**-0.5,
    }


def size(layers: int, width: int, inner: int, heads: int, **more: Any) -> dict[str, Any]:
    """The config of a published size."""
    return {"num_layers": layers, "d_model": width, "d_ff": inner, "num_heads": heads, **more}


NEWER: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def _bytes(layers: int, width: int, inner: int, heads: int) -> dict[str, Any]:
    """ByT5: a vocabulary of bytes, and three encoder layers for each of the decoder."""
    return size(
        layers, width, inner, heads, num_decoder_layers=layers // 3, vocab_size=384, **NEWER
    )


FAMILY = Family(
    model_type="t5",
    paper="Raffel et al. 2020",
    prefix="",
    base="T5Model",
    architectures={
        "T5EncoderModel": architecture(),
        "T5Model": architecture(DECODER),
        "T5ForConditionalGeneration": architecture(DECODER, "vocabulary"),
        # Compat: two of them keep the body under a name of its own.
        "T5ForTokenClassification": architecture(
            "tokens",
            rules=rules(("heads.tokens.project.{kind}", "classifier.{kind}")),
            prefix="transformer.",
        ),
        "T5ForSequenceClassification": architecture(
            DECODER, "pooler", "classes", prefix="transformer."
        ),
        "T5ForQuestionAnswering": architecture(DECODER, ANSWER_HEAD),
    },
    body=BODY,
    head=rules(
        ("heads.vocabulary.decoder.weight", "lm_head.weight"),
        ("pooler.dense.{kind}", "classification_head.dense.{kind}"),
        ("heads.classes.project.{kind}", "classification_head.out_proj.{kind}"),
        ("heads.answer.project.{kind}", "qa_outputs.{kind}"),
    ),
    # Compat: copies of the one table, and a table that no published model ever used.
    ignored=(
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    ),
    spellings=_spellings,
    stds=stds,
    sizes={
        "t5-tiny": size(4, 256, 1024, 4),
        "t5-small": size(6, 512, 2048, 8),
        "t5-base": size(12, 768, 3072, 12),
        "t5-large": size(24, 1024, 4096, 16),
        "t5-3b": size(24, 1024, 16_384, 32, d_kv=128),
        "t5-11b": size(24, 1024, 65_536, 128, d_kv=128),
        "t5-v1_1-small": size(8, 512, 1024, 6, **NEWER),
        "t5-v1_1-base": size(12, 768, 2048, 12, **NEWER),
        "t5-v1_1-large": size(24, 1024, 2816, 16, **NEWER),
        "t5-v1_1-xl": size(24, 2048, 5120, 32, **NEWER),
        "t5-v1_1-xxl": size(24, 4096, 10_240, 64, **NEWER),
        "byt5-small": _bytes(12, 1472, 3584, 6),
        "byt5-base": _bytes(18, 1536, 3968, 12),
        "byt5-large": _bytes(36, 1536, 3840, 16),
        "ul2": size(32, 4096, 16_384, 16, d_kv=256, **NEWER | {"feed_forward_proj": "gated-silu"}),
    },
    size_notes={"t5-tiny": "as google/t5-efficient-tiny, Tay et al. 2022"},
    of_bytes=frozenset({"byt5-small", "byt5-base", "byt5-large"}),
    # Compat: the published library assumes these numbers, which another vocabulary need not have.
    unstated={"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
    style=T5_STYLE,
    read=read,
    write=write,
)

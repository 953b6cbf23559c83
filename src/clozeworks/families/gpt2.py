"""GPT-2: a decoder that reads from left to right and writes what comes next.

Paper: Radford et al. 2019.
The idea: the network of GPT with norms before the parts and one more at the end, over bytes.
Where paper and code differ: the sizes in the paper's first version (117 and 345 million) were
miscounted; they are 124 and 355 million. Initial weights of what joins the residual stream are
smaller by the square root of the number of such parts.
Compat: published matrices are (in, out), and queries, keys and values are one. Two switches set the
scale of the scores; `reorder_and_upcast_attn` asks for scores in float32, which the kernels here
compute anyway.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Causal
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import LastTokenClasses, LastTokenScore
from clozeworks.core.heads.tokens import TokenClasses
from clozeworks.core.heads.vocabulary import PlainVocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import Mlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PreNorm, SublayerSpec
from clozeworks.core.layers.tower import Tower
from clozeworks.core.positions.learned import Learned
from clozeworks.families.family import (
    ANSWER_HEAD,
    CHOICE_HEAD,
    OWN,
    Config,
    Family,
    Parts,
    architecture,
    head_keys,
    with_attentions,
)
from clozeworks.families.weights import Form, rules, stacked
from clozeworks.text.tokenizer.styles import GPT2_STYLE

# What a config says of fine-tuned heads.
LABEL_KEYS = (
    ("num_labels", "classes", "count"),
    ("num_labels", "tokens", "count"),
    ("classifier_dropout", "tokens", "dropout"),
    ("summary_first_dropout", CHOICE_HEAD, "dropout"),
)


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a GPT-2 config."""
    config.refuse("add_cross_attention", [False], "there is no encoder to look at")
    norm = LayerNorm(eps=config.number("layer_norm_epsilon", 1e-5))
    dropout = config.probability("resid_pdrop", 0.1)
    activation = config.activation("activation_function", "gelu_new")
    width = config.whole("n_embd", 768)
    attention, feed_forward = (
        PreNorm(part=part, norm=norm, dropout=dropout) for part in layer_parts(config, activation)
    )
    depth = config.depth("n_layer", 12)
    plain = Blueprint(
        width=width,
        embeddings=embeddings(config, tokens=50_257, positions=1024),
        encoder=Tower(layers=((attention, feed_forward),) * depth, final_norm=norm),
        heads=heads(config, parts),
    )
    scales = _scales(config, width // config.heads("n_head", 12, "n_embd", width), depth)
    return with_attentions(plain, ({"scale": scale} for scale in scales))


def _scales(config: Config, head_width: int, depth: int) -> Iterator[float | None]:
    """What the scores of each layer are multiplied by; None is the usual scale."""
    usual = head_width**-0.5
    first = usual if config.truth("scale_attn_weights", True) else 1.0
    smaller = config.truth("scale_attn_by_inverse_layer_idx", False)
    for number in range(1, depth + 1):
        scale = first / number if smaller else first
        yield None if scale == usual else scale


def layer_parts(config: Config, activation: str) -> tuple[SelfAttention, Mlp]:
    """Attention to the past and a feed-forward network."""
    width = config.whole("n_embd", 768)
    return (
        SelfAttention(
            heads=config.heads("n_head", 12, "n_embd", width),
            mask=Causal(),
            dropout=config.probability("attn_pdrop", 0.1),
        ),
        Mlp(inner=config.whole("n_inner", 4 * width), activation=activation),
    )


def embeddings(config: Config, tokens: int, positions: int) -> Embeddings:
    """Tokens and positions."""
    return Embeddings(
        tokens=config.whole("vocab_size", tokens),
        positions=Learned(count=config.whole("n_positions", positions)),
        dropout=config.probability("embd_pdrop", 0.1),
    )


def heads(config: Config, parts: Parts, *, tied: bool = True) -> dict[str, HeadSpec]:
    """The heads among these parts; `tied` is what a config means that does not say."""
    # Compat: published classes drop a tenth before they sort tokens, whatever else is dropped.
    dropout = config.probability("classifier_dropout", 0.1)
    possible: dict[str, HeadSpec] = {
        "vocabulary": PlainVocabulary(tied=config.truth("tie_word_embeddings", tied), bias=False),
        "classes": LastTokenClasses(count=config.classes()),
        "tokens": TokenClasses(count=config.classes(), dropout=dropout),
        ANSWER_HEAD: TokenClasses(count=2),
    }
    if CHOICE_HEAD in parts:
        possible[CHOICE_HEAD] = _choice(config)
    return {name: head for name, head in possible.items() if name in parts}


def _choice(config: Config) -> LastTokenScore:
    """Which of several texts goes on rightly, as the last token of each says."""
    # Compat: where a text ends is stated there by `mc_token_ids`.
    config.refuse("summary_type", ["cls_index", "last"], "another token would speak for its text")
    config.refuse("summary_use_proj", [True], "the head would have no weights")
    config.refuse("summary_proj_to_labels", [True], "a text would have more than one score")
    config.refuse("summary_activation", [None], "the score would be bounded")
    return LastTokenScore(dropout=config.probability("summary_first_dropout", 0.1))


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a GPT-2 blueprint."""
    layer = blueprint.encoder.layers[0]
    scales = [getattr(attention.part, "scale", None) for attention, _ in blueprint.encoder.layers]
    return {
        **written(blueprint, layer),
        "scale_attn_weights": scales[0] is None,
        "scale_attn_by_inverse_layer_idx": len(set(scales)) > 1,
        "activation_function": spelled(getattr(layer[1].part, "activation", "")),
        "layer_norm_epsilon": getattr(blueprint.encoder.final_norm, "eps", None),
    }


def written(blueprint: Blueprint, layer: Sequence[SublayerSpec]) -> dict[str, Any]:
    """What the configs of GPT and GPT-2 have in common."""
    attention, feed_forward = (sub.part for sub in layer)
    table = blueprint.embeddings
    config = {
        "vocab_size": table.tokens,
        "n_positions": getattr(table.positions, "count", None),
        "n_embd": blueprint.width,
        "n_layer": len(blueprint.encoder.layers),
        "n_head": getattr(attention, "heads", None),
        "embd_pdrop": table.dropout,
        "attn_pdrop": getattr(attention, "dropout", None),
        "resid_pdrop": getattr(layer[0], "dropout", None),
        "tie_word_embeddings": getattr(blueprint.heads.get("vocabulary"), "tied", True),
    }
    inner = getattr(feed_forward, "inner", None)
    if inner != 4 * blueprint.width:
        config["n_inner"] = inner
    return config | head_keys(blueprint.heads, *LABEL_KEYS)


def spelled(activation: str) -> str:
    """The first published spelling of an activation."""
    return {"gelu_tanh": "gelu_new"}.get(activation, activation)


PROJECTIONS = {
    "attention.part.output": "attn.c_proj",
    "feed_forward.part.up": "mlp.c_fc",
    "feed_forward.part.down": "mlp.c_proj",
}
LAYERS = rules(
    *(
        (
            f"encoder.layers.{{layer}}.attention.part.{name}.{kind}",
            f"h.{{layer}}.attn.c_attn.{kind}:{name}",
        )
        for name in ("query", "key", "value")
        for kind in ("weight", "bias")
    ),
    *(
        (f"encoder.layers.{{layer}}.{ours}.weight", f"h.{{layer}}.{theirs}.weight:turned")
        for ours, theirs in PROJECTIONS.items()
    ),
    *(
        (f"encoder.layers.{{layer}}.{ours}.bias", f"h.{{layer}}.{theirs}.bias")
        for ours, theirs in PROJECTIONS.items()
    ),
    ("encoder.layers.{layer}.attention.norm.{kind}", "h.{layer}.ln_1.{kind}"),
    ("encoder.layers.{layer}.feed_forward.norm.{kind}", "h.{layer}.ln_2.{kind}"),
)
# A joint weight has a name here, too, so that every name in a published file can be translated;
# none of ours goes by it.
JOINT = rules(
    ("encoder.layers.{layer}.attention.part.joint.{kind}", "h.{layer}.attn.c_attn.{kind}"),
    *(
        (f"encoder.layers.{{layer}}.{ours}.turned", f"h.{{layer}}.{theirs}.weight")
        for ours, theirs in PROJECTIONS.items()
    ),
)
BODY = (
    *rules(
        ("embeddings.tokens.weight", "wte.weight"),
        ("embeddings.positions.table.weight", "wpe.weight"),
        ("encoder.norm.{kind}", "ln_f.{kind}"),
    ),
    *LAYERS,
    *JOINT,
)


def _apart(tensor: Tensor) -> Sequence[Tensor]:
    """A matrix (in, 3 * out) to three of (out, in)."""
    if tensor.shape[1] % 3:
        raise ValueError(f"{tensor.shape[1]} columns are not 3 equal pieces")
    return [piece.T.contiguous() for piece in tensor.chunk(3, dim=1)]


FORMS = (
    Form(
        ".attn.c_attn.weight",
        ("query", "key", "value"),
        _apart,
        lambda pieces: torch.cat([piece.T for piece in pieces], dim=1),
    ),
    stacked(".attn.c_attn.bias", "query", "key", "value"),
    *(
        Form(
            f".{theirs}.weight",
            ("turned",),
            lambda tensor: [tensor.T.contiguous()],
            lambda pieces: pieces[0].T.contiguous(),
        )
        for theirs in PROJECTIONS.values()
    ),
)


def stds(blueprint: Blueprint) -> dict[str, float]:
    """Initial weights of what joins the residual stream are smaller, the deeper the network."""
    smaller = 0.02 / (2 * len(blueprint.encoder.layers)) ** 0.5
    return {"*.attention.part.output.weight": smaller, "*.feed_forward.part.down.weight": smaller}


CLASSES = rules(("heads.classes.project.weight", "score.weight"))
CHOICE = rules(("heads.choice.project.{kind}", "multiple_choice_head.summary.{kind}"))
TOKENS = rules(("heads.tokens.project.{kind}", "classifier.{kind}"))
HEAD = rules(
    ("heads.vocabulary.decoder.weight", "lm_head.weight"),
    ("heads.answer.project.{kind}", "qa_outputs.{kind}"),
)


def _size(layers: int, width: int) -> dict[str, Any]:
    return {"n_layer": layers, "n_embd": width, "n_head": width // 64}


FAMILY = Family(
    model_type="gpt2",
    paper="Radford et al. 2019",
    prefix="transformer.",
    base="GPT2Model",
    architectures={
        "GPT2Model": architecture(),
        "GPT2LMHeadModel": architecture("vocabulary"),
        "GPT2DoubleHeadsModel": architecture("vocabulary", CHOICE_HEAD, rules=CHOICE),
        "GPT2ForSequenceClassification": architecture("classes", rules=CLASSES),
        "GPT2ForTokenClassification": architecture("tokens", rules=TOKENS),
        "GPT2ForQuestionAnswering": architecture(ANSWER_HEAD),
    },
    body=BODY,
    head=HEAD,
    ignored=("h.{layer}.attn.bias", "h.{layer}.attn.masked_bias"),
    forms=lambda config: FORMS,
    stds=stds,
    size_notes={"gpt2-tiny": OWN},
    sizes={
        "gpt2-tiny": _size(2, 128),
        "gpt2": _size(12, 768),
        "gpt2-medium": _size(24, 1024),
        "gpt2-large": _size(36, 1280),
        "gpt2-xl": {**_size(48, 1600), "n_head": 25},
    },
    # Compat: otherwise numbers of the published vocabulary are assumed, which others may not have.
    unstated=dict.fromkeys(("bos_token_id", "eos_token_id")),
    max_positions_key="n_positions",
    style=GPT2_STYLE,
    read=read,
    write=write,
)

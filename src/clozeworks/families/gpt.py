"""GPT: the first of its kind, a decoder that is fine-tuned.

Paper: Radford et al. 2018.
The idea: learn to write what comes next, then read classes from the last token.
Where paper and code differ: none that matter here; norms stand after the parts and there is no
last one, unlike in GPT-2.
Compat: `afn = "gelu"` means the approximation by tanh, here alone. Published matrices are
(in, out).
"""

from typing import Any

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PostNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.families import gpt2
from clozeworks.families.family import CHOICE_HEAD, Config, Family, Parts, architecture
from clozeworks.families.weights import rules
from clozeworks.text.tokenizer.styles import GPT_STYLE

# Published names of activations in this family, and ours.
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of a GPT config."""
    norm = LayerNorm(eps=config.number("layer_norm_epsilon", 1e-5))
    dropout = config.probability("resid_pdrop", 0.1)
    activation = config.one_of("afn", ACTIVATIONS, "gelu")
    layer = tuple(
        PostNorm(part=part, norm=norm, dropout=dropout)
        for part in gpt2.layer_parts(config, activation)
    )
    return Blueprint(
        width=config.whole("n_embd", 768),
        embeddings=gpt2.embeddings(config, tokens=40_478, positions=512),
        encoder=Tower(layers=(layer,) * config.depth("n_layer", 12)),
        heads=gpt2.heads(config, parts),
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of a GPT blueprint."""
    layer = blueprint.encoder.layers[0]
    ours = getattr(layer[1].part, "activation", "")
    return {
        **gpt2.written(blueprint, layer),
        "afn": {value: key for key, value in reversed(ACTIVATIONS.items())}.get(ours, ours),
        "layer_norm_epsilon": getattr(getattr(layer[0], "norm", None), "eps", None),
    }


FAMILY = Family(
    model_type="openai-gpt",
    paper="Radford et al. 2018",
    prefix="transformer.",
    base="OpenAIGPTModel",
    architectures={
        "OpenAIGPTModel": architecture(),
        "OpenAIGPTLMHeadModel": architecture("vocabulary"),
        "OpenAIGPTDoubleHeadsModel": architecture("vocabulary", CHOICE_HEAD, rules=gpt2.CHOICE),
        "OpenAIGPTForSequenceClassification": architecture("classes", rules=gpt2.CLASSES),
    },
    body=(
        *rules(
            ("embeddings.tokens.weight", "tokens_embed.weight"),
            ("embeddings.positions.table.weight", "positions_embed.weight"),
        ),
        *gpt2.LAYERS,
        *gpt2.JOINT,
    ),
    head=gpt2.HEAD[:1],
    ignored=("position_ids", "h.{layer}.attn.bias"),
    forms=gpt2.FAMILY.forms,
    sizes={"openai-gpt": {"n_layer": 12, "n_embd": 768, "n_head": 12}},
    max_positions_key="n_positions",
    style=GPT_STYLE,
    read=read,
    write=write,
)

"""A blueprint as a tree a person can read: every part with its size, file and paper."""

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import POSITION_TABLE, TOKEN_TABLE
from clozeworks.core.layers.embeddings import EmbeddingsModule
from clozeworks.core.layers.tower import Layer, Tower, sublayer_names

# What people call the tables that heads share.
TABLES = {TOKEN_TABLE: "token table", POSITION_TABLE: "position table"}
# Fields whose module goes by another name.
BUILT = {"final_norm": "norm"}


@dataclasses.dataclass
class Node:
    """One part."""

    label: str
    parameters: int
    file: str = ""
    paper: str = ""
    children: "list[Node]" = dataclasses.field(default_factory=list)

    def walk(self, depth: int = 0) -> "Iterator[tuple[int, Node]]":
        """Every node below, with its depth, in reading order."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def tree(blueprint: Blueprint) -> Node:
    """The parts of a blueprint with their parameter counts; no weight is made."""
    model = blueprint.build("meta")
    top = _node("model", blueprint, model)
    for node in top.children:
        name = node.label.split(":")[0]
        # What a head shares counts where it stands first, and once however often it is used.
        shared = {first for copy, first in model.tied().items() if copy.startswith(f"{name}.")}
        node.parameters -= sum(model.get_parameter(first).numel() for first in shared)
        tables = " and ".join(TABLES.get(first, first) for first in sorted(shared, reverse=True))
        node.label += f", shares the {tables}" if shared else ""
    return top


def _node(name: str, spec: Any, module: nn.Module | None) -> Node:
    plain = {
        field.name: getattr(spec, field.name)
        for field in dataclasses.fields(spec)
        if isinstance(getattr(spec, field.name), bool | int | float | str)
        and getattr(spec, field.name) != field.default
    }
    settings = ", ".join(f"{key}={value}" for key, value in plain.items())
    node = Node(
        label=f"{name}: {type(spec).__name__}({settings})",
        parameters=_count(module),
        file=_file(type(spec)),
        paper=getattr(spec, "paper", ""),
    )
    tables: list[Node] = []
    if isinstance(spec, Tower):
        node.children = _layers(spec, module)
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        part = getattr(module, BUILT.get(field.name, field.name), None)
        if dataclasses.is_dataclass(value):
            module_of = part if isinstance(part, nn.Module) else None
            node.children.append(_node(field.name, value, module_of))
        elif isinstance(value, dict):
            node.children += [
                _node(f"{field.name}.{key}", item, part[key] if part is not None else None)
                for key, item in value.items()
            ]
        elif isinstance(part, nn.Embedding):
            rows = f"{field.name}: {part.num_embeddings:,} x {part.embedding_dim:,}"
            tables.append(Node(rows, _count(part)))
    if isinstance(module, EmbeddingsModule) and isinstance(module.widen, nn.Linear):
        widths = f"project: {module.widen.in_features:,} to {module.widen.out_features:,}"
        node.children.append(Node(widths, _count(module.widen), paper="Lan et al. 2020"))
    node.children = tables + node.children
    return node


def _layers(spec: Tower, module: nn.Module | None) -> list[Node]:
    """Equal layers that follow each other are one line; each kind of layer is spelled out once."""
    nodes: list[Node] = []
    shown: dict[Layer, str] = {}
    first = 0
    for last, layer in enumerate(spec.layers):
        if last + 1 < len(spec.layers) and spec.layers[last + 1] == layer:
            continue
        assert module is not None
        parts = module.get_submodule(f"layers.{first}")
        same = last - first + 1
        each = _count(parts)
        name = f"layers {first} to {last}" if same > 1 else f"layer {last}"
        alike = f" ({same} alike, {each:,} each)" if same > 1 else ""
        before = f", as {shown[layer]}" if layer in shown else ""
        node = Node(name + alike + before + _runs(spec, first, last), each * same)
        if layer not in shown:
            shown[layer] = name
            node.children = [
                _node(name, sub, parts.get_submodule(name))
                for name, sub in zip(sublayer_names(layer), layer, strict=True)
            ]
        nodes.append(node)
        first = last + 1
    if spec.order is not None and len(spec.layers) > 1:
        nodes.append(Node(f"order: {', '.join(map(str, spec.order))}", 0))
    return nodes


def _runs(spec: Tower, first: int, last: int) -> str:
    """How often layers run, where that is the same number of times for all and more than once."""
    order = spec.running_order()
    times = {order.count(layer) for layer in range(first, last + 1)}
    often = times.pop() if len(times) == 1 else 1
    return f", {'each ' if first < last else ''}run {often} times" if often > 1 else ""


def _count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters()) if isinstance(module, nn.Module) else 0


def _file(cls: type) -> str:
    """The file that defines a part, from the package's folder on."""
    path = Path(inspect.getsourcefile(cls) or "")
    parts = path.parts
    return "/".join(parts[parts.index("clozeworks") + 1 :]) if "clozeworks" in parts else path.name

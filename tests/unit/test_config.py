"""Plain data to specs and back; every complaint names the path."""

import json

import pytest

from clozeworks import config, registry
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.positions import InputPositionSpec
from clozeworks.errors import SettingError, UnknownName
from clozeworks.families.family import family

BASE = family("bert")


def plain():
    return json.loads(BASE.blueprint(BASE.published("bert-tiny"), frozenset({"pooler"})).to_json())


def test_kinds():
    assert set(registry.specs(NormSpec)) >= {"layer_norm", "rms_norm"}
    assert set(registry.specs(InputPositionSpec)) >= {"learned"}


def change(path, value):
    data = plain()
    place = data
    *way, last = path
    for step in way:
        place = place[step]
    place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "kind", "message"),
    [
        (["widht"], 3, UnknownName,
         "A setting is 'widht'; known: decoder, embeddings, encoder, heads, pooler, "
         "rereads, width. Did you mean 'width'?"),
        (["width"], "768", SettingError, "width is '768'; it must be int."),
        (["width"], True, SettingError, "width is True; it must be int."),
        (["embeddings", "norm", "kind"], "layer_nrom", UnknownName,
         "embeddings.norm.kind is 'layer_nrom'; known: layer_norm, rms_norm. "
         "Did you mean 'layer_norm'?"),
        (["embeddings", "norm"], 5, SettingError,
         "embeddings.norm is 5; it must be a table with a kind, one of: layer_norm, rms_norm."),
        (["embeddings"], 5, SettingError,
         "embeddings is 5; it must be a table of settings: tokens, width, types, types_added, "
         "positions, norm, dropout, widen_first."),
        (["encoder", "layers"], 5, SettingError, "encoder.layers is 5; it must be a list."),
        (["heads"], 5, SettingError, "heads is 5; it must be a table."),
        (["encoder", "layers", 0, 0, "part", "hads"], 2, UnknownName,
         "A setting of encoder.layers[0][0].part is 'hads'; known: bias, dropout, head_width, "
         "heads, key_bias, kv_heads, mask, output_bias, positions, scale. Did you mean 'heads'?"),
    ],
)  # fmt: skip
def test_complaints(path, value, kind, message):
    with pytest.raises(kind) as error:
        Blueprint.from_json(json.dumps(change(path, value)))
    assert str(error.value) == message


def test_a_missing_setting_is_named():
    data = plain()
    del data["embeddings"]["tokens"]
    with pytest.raises(
        SettingError, match=r"^embeddings.tokens is missing; it has no default; set it.$"
    ):
        config.read(Blueprint, data)


def test_not_json():
    with pytest.raises(SettingError, match=r"^blueprint is wrong in line 1: .*; it must be JSON.$"):
        Blueprint.from_json("{")


def test_whole_numbers_serve_as_numbers():
    data = change(["embeddings", "dropout"], 0)
    assert config.read(Blueprint, data).embeddings.dropout == 0.0


def test_none_is_said_in_a_word():
    assert config.read(float | None, "none", "clip") is None
    assert config.read(float | None, None, "clip") is None
    assert config.read(float | None, 1.0, "clip") == 1.0
    assert config.read(str | None, "none", "name") == "none"
    with pytest.raises(SettingError, match="clip is 'non'; it must be float"):
        config.read(float | None, "non", "clip")


def test_a_list_may_lose_its_quotation_marks_in_a_shell():
    data = {}
    for change in ("a=[first]", "b=[first, max]", 'c=["x y"]', "d=[a b]", "e=first"):
        config.override(data, change)
    assert data == {"a": ["first"], "b": ["first", "max"], "c": ["x y"], "d": "[a b]", "e": "first"}

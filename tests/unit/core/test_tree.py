from clozeworks.core.tree import tree
from clozeworks.families.family import Config, families, published_sizes


def test_parts_add_up_to_the_whole():
    size_of = {family.model_type: size for size, family in published_sizes().items()}
    for name, size in size_of.items():
        family = families()[name]
        parts = frozenset(family.architectures[family.base].parts | {"vocabulary"})
        blueprint = family.blueprint(family.published(size), parts)
        top = tree(blueprint)
        assert top.parameters == blueprint.count()
        assert sum(child.parameters for child in top.children) == top.parameters


def test_every_part_names_its_file_and_paper():
    family = families()["bert"]
    blueprint = family.blueprint(family.published("bert-base"), frozenset({"vocabulary"}))
    labels = {node.label: node for _, node in tree(blueprint).walk()}
    attention = labels["part: SelfAttention(heads=12, dropout=0.1)"]
    assert (attention.file, attention.paper) == (
        "core/attention/attention.py",
        "Vaswani et al. 2017",
    )
    assert attention.parameters == 4 * (768 * 768 + 768)
    assert labels["layers 0 to 11 (12 alike, 7,087,872 each)"].parameters == 85_054_464
    shared = "shares the token table"
    assert labels[f"heads.vocabulary: Vocabulary(), {shared}"].parameters == 622_650


def test_shared_layers_say_how_often_they_run():
    family = families()["albert"]
    base = family.published("albert-base-v1")
    nodes = {}
    for groups in (1, 3):
        blueprint = family.blueprint(Config({**base, "num_hidden_groups": groups}), frozenset())
        nodes[groups] = {node.label: node for _, node in tree(blueprint).walk()}
    assert nodes[1]["layer 0, run 12 times"].parameters == 7_087_872
    assert nodes[1]["project: 128 to 768"].parameters == 128 * 768 + 768
    three = "layers 0 to 2 (3 alike, 7,087,872 each), each run 4 times"
    assert nodes[3][three].parameters == 3 * 7_087_872
    assert "order: 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2" in nodes[3]
    assert not any(label.startswith("order") for label in nodes[1])

from clozeworks.core.tree import tree
from clozeworks.families.family import families, published_sizes


def test_parts_add_up_to_the_whole():
    for size, family in published_sizes().items():
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
    assert (attention.file, attention.paper) == ("core/attention.py", "Vaswani et al. 2017")
    assert attention.parameters == 4 * (768 * 768 + 768)
    assert labels["layers 0 to 11 (12 alike, 7,087,872 each)"].parameters == 85_054_464
    shared = "shares the token table"
    assert labels[f"heads.vocabulary: Vocabulary(), {shared}"].parameters == 622_650

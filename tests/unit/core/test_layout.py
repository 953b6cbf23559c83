import torch

from clozeworks.core.layout import Layout

CPU = torch.device("cpu")


def test_places():
    layout = Layout([3, 0, 2])
    assert (layout.total, layout.starts, layout.longest, len(layout)) == (5, (0, 3, 3), 3, 3)
    assert layout.positions(CPU).tolist() == [0, 1, 2, 0, 1]
    assert layout.rows(CPU).tolist() == [0, 0, 0, 2, 2]
    assert [piece.tolist() for piece in layout.split(torch.arange(5))] == [[0, 1, 2], [], [3, 4]]


def test_first_and_last():
    layout = Layout([3, 1, 2])
    assert layout.first(CPU).tolist() == [0, 3, 4]
    assert layout.last(CPU).tolist() == [2, 3, 5]


def test_layouts_compare_by_lengths():
    assert Layout([1, 2]) == Layout((1, 2)) != Layout([2, 1])
    assert len({Layout([1, 2]), Layout([1, 2])}) == 1
    assert Layout([]).total == 0
    assert repr(Layout([4, 2])) == "Layout(2 texts, 6 tokens, longest 4)"

"""What becomes of a head that a checkpoint has already: kept, remapped, begun anew or refused."""

import pytest
import torch

import clozeworks as cw
from clozeworks.checkpoints.tasks import about_head
from clozeworks.errors import SettingError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag


def head_of(model):
    parts = {name: value for name, value in model.model.named_parameters() if "heads." in name}
    return {name: value.detach().clone() for name, value in parts.items()}


@pytest.fixture(params=["bert", "roberta"])
def known(request, tiny_models):
    """A checkpoint that can tell three labels apart."""
    model = cw.load(tiny_models[request.param])
    return model.for_task(Classify(labels=("bad", "good", "odd")), seed=1)


def rows_of(model):
    """The last layer's row of each label."""
    weight = next(
        value for name, value in head_of(model).items() if name.endswith("project.weight")
    )
    return dict(zip(model.task.labels, weight, strict=True))


@pytest.mark.parametrize("kind", [Classify, Compare])
def test_the_same_labels_are_kept_in_any_order(known, kind):
    task = kind(labels=("odd", "bad", "good"))
    made = known.for_task(task, seed=2)
    for label, row in rows_of(known).items():
        assert torch.equal(rows_of(made)[label], row)
    assert about_head(known.checkpoint, task).startswith(
        "The checkpoint's head has the same labels (bad, good, odd); it is kept"
    )


def test_other_labels_begin_anew_unless_asked(known):
    task = Classify(labels=("good", "new", "bad"))
    made = rows_of(known.for_task(task, seed=2))
    fresh = rows_of(known.for_task(task, seed=2, head="fresh"))
    assert all(torch.equal(made[label], fresh[label]) for label in made)
    assert not torch.equal(made["good"], rows_of(known)["good"])
    assert about_head(known.checkpoint, task) == (
        "The checkpoint's head (bad, good, odd) has other labels, and begins anew."
    )


def test_labels_it_knows_can_keep_what_was_learned(known):
    task = Classify(labels=("good", "new", "bad", "newer"))
    made, old = known.for_task(task, seed=2, head="remap"), rows_of(known)
    fresh = rows_of(known.for_task(task, seed=2, head="fresh"))
    assert torch.equal(rows_of(made)["good"], old["good"])
    assert torch.equal(rows_of(made)["bad"], old["bad"])
    assert torch.equal(rows_of(made)["new"], fresh["new"])
    before, after = head_of(known), head_of(made)
    for name in before:  # what stands before the last layer belongs to all labels
        if ".project." not in name:
            assert torch.equal(before[name], after[name])
    assert "knows 2 of 4 labels" in about_head(known.checkpoint, task, "remap")
    none = Classify(labels=("x", "y"))
    assert "begins anew" in about_head(known.checkpoint, none, "remap")


def test_labels_that_are_not_wanted_go(known):
    task = Classify(labels=("good", "bad"))
    made = known.for_task(task, seed=2, head="remap")
    assert torch.equal(rows_of(made)["good"], rows_of(known)["good"])
    assert about_head(known.checkpoint, task, "remap") == (
        "The checkpoint's head (bad, good, odd) has all labels and 1 more; the others go, and it "
        "is trained further."
    )


def test_a_head_for_answers_can_be_kept_begun_anew_or_insisted_on(tiny_models):
    plain = cw.load(tiny_models["bert"])
    with pytest.raises(SettingError, match="has no head for the task"):
        plain.for_task(Answer(), head="refuse")
    old = plain.for_task(Answer(), seed=1)
    for head, stays in (("fit", True), ("remap", True), ("refuse", True), ("fresh", False)):
        made = old.for_task(Answer(threshold=0.5), seed=2, head=head)
        weights = [next(v for n, v in head_of(m).items() if "weight" in n) for m in (old, made)]
        assert torch.equal(*weights) is stays
        fate = "is kept and trained further" if stays else "begins anew, as asked"
        said = about_head(old.checkpoint, Answer(), head)
        assert said == f"The checkpoint's head for this task {fate}."


def test_the_same_head_can_begin_anew(known):
    task = Classify(labels=("bad", "good", "odd"))
    made = rows_of(known.for_task(task, seed=2, head="fresh"))
    assert not torch.equal(made["bad"], rows_of(known)["bad"])
    assert "begins anew, as asked" in about_head(known.checkpoint, task, "fresh")


def test_other_labels_can_be_refused(known, tiny_models):
    known.for_task(Classify(labels=("good", "bad", "odd")), head="refuse")
    with pytest.raises(SettingError) as caught:
        known.for_task(Classify(labels=("good", "bad")), head="refuse")
    assert str(caught.value) == (
        "head is 'refuse'; the labels are good, bad, and the checkpoint has bad, good, odd; name "
        "another checkpoint, or leave it out."
    )
    with pytest.raises(SettingError, match="the checkpoint has no head for the task"):
        cw.load(tiny_models["bert"]).for_task(Classify(labels=("a", "b")), head="refuse")


def test_a_head_of_another_task_is_none(known):
    task = Tag(labels=("bad", "good", "odd"))
    assert about_head(known.checkpoint, task, "remap") == ""
    known.for_task(task, head="remap")


def test_learned_moves_are_not_taken_apart(tiny_models):
    model = cw.load(tiny_models["bert"]).for_task(Tag(labels=("A", "B"), crf=True))
    made = model.for_task(Tag(labels=("B", "C"), crf=True), seed=3, head="remap")
    fresh = model.for_task(Tag(labels=("B", "C"), crf=True), seed=3, head="fresh")
    moves = [name for name in head_of(made) if "transitions" in name]
    assert moves
    assert all(torch.equal(head_of(made)[name], head_of(fresh)[name]) for name in moves)


def test_what_follows_what_is_kept_with_its_labels(tiny_models):
    """A move belongs to two labels: where it comes from, and where it goes to."""
    model = cw.load(tiny_models["bert"]).for_task(Tag(labels=("A", "B", "C"), crf=True))
    learned = model.model.heads["transitions"]
    with torch.no_grad():
        learned.move_bias.copy_(torch.arange(9.0).view(3, 3))
        learned.start_bias.copy_(torch.arange(3.0))
    made = model.for_task(Tag(labels=("C", "A", "B"), crf=True)).model.heads["transitions"]
    assert made.start_bias.tolist() == [2, 0, 1]
    assert made.move_bias.tolist() == [[8, 6, 7], [2, 0, 1], [5, 3, 4]]

"""Labelled files, read or refused."""

import pytest

from clozeworks.cli.items import item_type
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import ClozeworksError


@pytest.fixture
def labelled(folder, save):
    """Writes a file and reads what it holds; bad rows are dropped if that is asked for."""

    def read(name, content, task="classify", *, skip=False, **options):
        bad = BadRows(skip=skip)
        return read_items(save(name, content), item_type(task), Reading(**options), bad=bad)

    return read


@pytest.fixture
def wrong(labelled):
    """Checks the whole sentence that refuses a file."""

    def check(sentence, name, content, task="classify", error=ClozeworksError, **options):
        with pytest.raises(error) as caught:
            labelled(name, content, task, **options)
        assert str(caught.value) == sentence

    return check


@pytest.fixture
def bad(labelled):
    """Checks what is said of the only bad row, dropped or not, and that the others are kept."""

    def check(place, what, name, content, task="classify", **options):
        read = labelled(name, content, task, skip=True, **options)
        assert [(row.source_location, row.what) for row in read.bad.rows] == [(place, what)]
        with pytest.raises(ClozeworksError) as caught:
            labelled(name, content, task, **options)
        assert str(caught.value) == f"{place}: {what}, or drop the row with --skip-bad-rows."
        return read.items

    return check

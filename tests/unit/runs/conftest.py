"""Runs are made for what they leave beside their charts."""

import pytest


@pytest.fixture(autouse=True)
def undrawn(blank_charts: None) -> None:
    """Reports of runs have no charts here."""

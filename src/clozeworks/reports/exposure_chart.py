"""Draws what a model loses when it reads its own words, place by place."""

from clozeworks.inference.exposure import Exposure
from clozeworks.reports.curves import Line, Marks, Panel, draw_png


def exposure_chart(found: Exposure) -> bytes:
    """A PNG with two curves: loss behind the right tokens, and behind the model's own."""
    lines = [
        Line(label, [(float(place.place), value) for place, value in points], colour, held_out=True)
        for colour, (label, points) in enumerate(
            (
                ("behind the right tokens", [(place, place.told) for place in found.places]),
                ("behind its own", [(place, place.own) for place in found.places]),
            )
        )
    ]
    panel = Panel("Loss by place", lines, lambda value: f"{value:.3g}", across="tokens written")
    return draw_png([panel], Marks())

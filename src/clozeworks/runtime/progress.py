"""How far something is: what is done, and how much there is in all."""

from collections.abc import Callable

Progress = Callable[[int, int], None]

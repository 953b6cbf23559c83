"""Looking inside a model: attention, lenses, attributions, words in contexts, pieces. Plain data.

Every result is a frozen dataclass with `to_dict`. Numbers are rounded only there.
"""

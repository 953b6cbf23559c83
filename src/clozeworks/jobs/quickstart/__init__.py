"""The main job on a text everybody has."""

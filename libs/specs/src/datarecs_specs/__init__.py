"""Declarations: YAML and JSON specs to frozen dataclasses, every fault at once."""

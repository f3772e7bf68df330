"""Declarations on paper: YAML and JSON specs to frozen dataclasses, every fault at once."""

"""Canonical values: their types, casts, rules and encoding."""

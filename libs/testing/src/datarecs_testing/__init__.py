"""Builders, fixtures and conformance suites; never shipped."""

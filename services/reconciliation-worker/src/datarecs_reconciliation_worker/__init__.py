"""Leases runs, supervises the Spark child, reports how it ended."""

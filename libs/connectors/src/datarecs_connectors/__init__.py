"""Customers' sources: pin, describe, scan."""

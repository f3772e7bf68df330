"""Behaviour every implementer of a port owes; one module per port, subclassed by its tests."""

"""Use cases, ports and loops: the order of the steps."""

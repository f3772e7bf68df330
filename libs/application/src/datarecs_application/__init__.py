"""Use cases, ports and loops: the order in which things happen."""

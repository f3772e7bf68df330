"""Well-formed URLs and allowed addresses; sockets are in the adapters."""

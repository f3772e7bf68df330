"""Service: capture-worker."""

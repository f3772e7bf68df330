"""In-process twins of the state and message ports."""

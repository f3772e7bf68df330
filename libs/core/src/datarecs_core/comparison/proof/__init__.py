"""run.json: written, read back and verified."""

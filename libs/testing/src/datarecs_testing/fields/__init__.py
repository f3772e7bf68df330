"""Every field of every kind, found in the published schemas, and what a field must change."""

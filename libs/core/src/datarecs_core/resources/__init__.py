"""Declared objects: envelope, generation, resourceVersion, what a change is."""

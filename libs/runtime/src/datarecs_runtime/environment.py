"""Reads the process environment for code that does not use a settings class.

The command line and the local stack pass it to children and to the search for Java.
"""

import os


def process_environment() -> dict[str, str]:
    """A copy of the current environment."""
    return dict(os.environ)

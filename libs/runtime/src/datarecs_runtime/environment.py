"""The one reading of the process environment that is not a settings class.

The command line and the local stack hand it on: to children, and to the search for Java.
"""

import os


def process_environment() -> dict[str, str]:
    """A copy of the environment as it is now."""
    return dict(os.environ)

"""Where a new signing secret goes: shown once, into a private file or on stderr.

Its own module because `apply` and `webhook rotate-secret` hand secrets over alike.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from datarecs_cli.invocation import Invocation
from datarecs_cli.stack.credentials import write_private


def hand_over(secrets: Sequence[str], target: Path | None, invocation: Invocation) -> None:
    """Into the file, or on stderr, also under --quiet; nothing where there is none."""
    if not secrets:
        return
    if target is not None:
        write_private(target, "".join(f"{secret}\n" for secret in secrets).encode())
        invocation.say(f"the signing secret is in {target}; the server never shows it again")
        return
    for secret in secrets:
        print(f"signing secret, shown this once: {secret}", file=sys.stderr)

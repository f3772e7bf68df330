"""Writes a new signing secret once, to a private file or to stderr.

`apply` and `webhook rotate-secret` share it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from datarecs_cli.invocation import Invocation
from datarecs_cli.stack.credentials import write_private


def hand_over(secrets: Sequence[str], target: Path | None, invocation: Invocation) -> None:
    """Write to the file, or to stderr even under --quiet; nothing if there is no secret."""
    if not secrets:
        return
    if target is not None:
        write_private(target, "".join(f"{secret}\n" for secret in secrets).encode())
        invocation.say(f"the signing secret is in {target}; the server never shows it again")
        return
    for secret in secrets:
        print(f"signing secret, shown only once: {secret}", file=sys.stderr)

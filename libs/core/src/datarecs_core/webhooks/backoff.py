"""How long a delivery waits before its next attempt: schedule, jitter, Retry-After."""

from collections.abc import Sequence
from datetime import timedelta


def jittered(delay: timedelta, *, u: float) -> timedelta:
    """The delay times 0.8 to 1.2; `u` is uniform in [0, 1)."""
    return delay * (0.8 + 0.4 * u)


def next_delay(delays: Sequence[timedelta], index: int, *, u: float) -> timedelta | None:
    """The wait after a failure that has used `index` delays before; None when none is left."""
    return jittered(delays[index], u=u) if index < len(delays) else None

"""A transaction that is repeated when another one interferes.

A separate module because every writing route needs it: a feed number reserved too early, a deadlock
or a lost compare-and-set means start from the top, and only a conflict of the client is reported.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from datarecs_application.errors import StoreBusyError
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.values import TenantId

T = TypeVar("T")
TRIES = 5
FEED_NUMBERS = 8
"""More than any one request writes to the feeds."""


def repeated(
    unit: UnitOfWork, tenant: TenantId, work: Callable[[Transaction], T], *, feed: bool = False
) -> T:
    """What `work` returns, from the first of at most five transactions that commits.

    Raises:
        StoreBusyError: all of them lost.
    """
    for _ in range(TRIES - 1):
        with suppress(StoreBusyError):
            return _once(unit, tenant, work, feed=feed)
    return _once(unit, tenant, work, feed=feed)


def _once(unit: UnitOfWork, tenant: TenantId, work: Callable[[Transaction], T], *, feed: bool) -> T:
    with unit.begin(tenant, feed=FEED_NUMBERS if feed else 0) as tx:
        return work(tx)

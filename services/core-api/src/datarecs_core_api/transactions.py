"""A transaction that is run again when another one came in between.

Its own module because every writing route needs it: a feed number drawn too early, a deadlock or a
lost compare-and-set means start from the top, and only the client's own conflict is told.
"""

from collections.abc import Callable
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
    for left in range(TRIES - 1, -1, -1):
        try:
            with unit.begin(tenant, feed=FEED_NUMBERS if feed else 0) as tx:
                return work(tx)
        except StoreBusyError:
            if left == 0:
                raise
    raise AssertionError("the last try returns or raises")

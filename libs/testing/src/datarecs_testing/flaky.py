"""An unavailable database, or a defect, for the first transactions.

Over the real unit of work, so that later steps are unchanged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.values import TenantId


@dataclass
class Flaky:
    """Port UnitOfWork."""

    inner: UnitOfWork
    failures: int
    error: Exception
    passing: int = 0
    """Number of successful transactions before the first failure."""

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Transaction]:
        if self.passing:
            self.passing -= 1
        elif self.failures:
            self.failures -= 1
            raise self.error
        with self.inner.begin(tenant, feed=feed, read_only=read_only) as tx:
            yield tx

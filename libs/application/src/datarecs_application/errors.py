"""What every implementation of the state ports raises.

Named here and not in an adapter, because loops and use cases handle them and may import neither
PostgreSQL nor its twin in memory.
"""

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.store import StoreCode
from datarecs_core.values import RunId


class StoreUnavailableError(DatarecsError):
    """The database cannot be reached, or the outcome of COMMIT is unknown: start from the top."""

    code = StoreCode.STORE_UNAVAILABLE

    def __init__(self, *, cause: str) -> None:
        super().__init__(f"the platform database is not available: {cause}")
        self.cause = cause


class StoreBusyError(DatarecsError):
    """Deadlock, lock, serialization or feed order: nothing was written, run it again."""

    code = StoreCode.STORE_BUSY

    def __init__(self, *, cause: str) -> None:
        super().__init__(f"the platform database was busy, repeat the transaction: {cause}")
        self.cause = cause


class RunExistsError(DatarecsError):
    """The id is taken, or the schedule has fired this slot already."""

    code = StoreCode.RUN_EXISTS

    def __init__(self, *, run_id: RunId) -> None:
        super().__init__(f"run {run_id} exists already, or its schedule has fired for this time")
        self.run_id = run_id


class ResourceExistsError(DatarecsError):
    """The name is taken, perhaps by a resource that is still being deleted."""

    code = ApiCode.ALREADY_EXISTS

    def __init__(self, *, kind: str, namespace: str, name: str) -> None:
        super().__init__(f"{kind} {namespace}/{name} exists already; choose another name")
        self.kind, self.namespace, self.name = kind, namespace, name


class KeyBusyError(DatarecsError):
    """Another transaction holds the Idempotency-Key; it did not end within 2 s."""

    code = ApiCode.IDEMPOTENCY_KEY_BUSY

    def __init__(self, *, route: str) -> None:
        super().__init__(
            f"another request with this Idempotency-Key runs on {route}; repeat in a second"
        )
        self.route = route


class FeedNotDrawnError(DatarecsError):
    """A feed was written without a number: a defect of the use case, named with its cure."""

    code = StoreCode.FEED_NOT_DRAWN

    def __init__(self, *, drawn: int) -> None:
        super().__init__(
            f"the transaction drew {drawn} feed numbers and needs more; "
            "pass a larger `feed` to `UnitOfWork.begin`"
        )
        self.drawn = drawn

"""What a write or read of a resource is refused with."""

from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.resources.resource import Kind, Resource


class ResourceNotFoundError(DatarecsError):
    """No such object, or the tenant has no access to it."""

    code = ApiCode.NOT_FOUND

    def __init__(self, *, kind: Kind, namespace: str, name: str) -> None:
        super().__init__(f"there is no {kind} {name} in namespace {namespace}")
        self.kind, self.namespace, self.name = kind, namespace, name


class BeingDeletedError(DatarecsError):
    """The name belongs to an object with unfinished finalizers."""

    code = ApiCode.BEING_DELETED

    def __init__(self, *, resource: Resource) -> None:
        waiting = ", ".join(resource.finalizers)
        super().__init__(
            f"{resource.kind} {resource.name} is being deleted; it waits for {waiting}"
        )
        self.finalizers = resource.finalizers


class PreconditionFailedError(DatarecsError):
    """The object was written since the caller read it."""

    code = ApiCode.PRECONDITION_FAILED

    def __init__(self, *, resource: Resource) -> None:
        super().__init__(
            f"{resource.kind} {resource.name} has changed; read it again and apply your change"
        )
        self.etag = resource.etag
        """The current one, for the response."""


class JobNotReadyError(DatarecsError):
    """A run of the job could only fail, as its controller reported."""

    code = ApiCode.JOB_NOT_READY

    def __init__(self, *, name: str, reason: str) -> None:
        super().__init__(f"job {name} cannot run: {reason}")
        self.name, self.reason = name, reason


class FinalizerAddedError(DatarecsError):
    """After the deletion has begun finalizers are only removed."""

    code = ApiCode.INVALID_INPUT

    def __init__(self, *, added: tuple[str, ...]) -> None:
        super().__init__(
            f"no finalizer can be added while the object is being deleted: {', '.join(added)}"
        )
        self.added = added


class WriteConflictError(DatarecsError):
    """Other writers were faster, several times in a row."""

    code = ApiCode.WRITE_CONFLICT

    def __init__(self, *, kind: Kind, name: str, tries: int) -> None:
        super().__init__(f"other requests changed {kind} {name} {tries} times meanwhile; repeat")
        self.tries = tries

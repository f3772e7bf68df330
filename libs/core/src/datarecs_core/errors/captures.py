"""DR585: why a capture, or a part of its tree, has no result, and what the queue refuses."""

from collections.abc import Sequence
from uuid import UUID

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class CaptureCode(ErrorCode):
    COLUMN_MISSING = Entry(
        docs_id="DR5866",
        meaning="A table that a capture names does not have a column that it names, or no table "
        "has one of them.",
        causes="A name with a mistake, or a column that was dropped or renamed.",
        remedy="Compare the names with the columns of the table in the catalogue.",
    )
    CONNECTOR_MISSING = Entry(
        docs_id="DR5851",
        meaning="The connection of a capture does not exist any more, or cannot be used.",
        causes="It was deleted or is being deleted, or another release stored its declaration.",
        remedy="Declare the connection again and start another capture.",
    )
    TABLE_MISSING = Entry(
        docs_id="DR5852",
        meaning="The source has no table, view or snapshot that a capture names.",
        causes="A name with a mistake, an object that was dropped meanwhile, or one that the login "
        "may not read.",
        remedy="Compare the names with those of the source, and check the rights of the login.",
    )
    DESTINATION_CONFLICT = Entry(
        docs_id="DR5853",
        meaning="The catalogue has another object where a capture would write.",
        causes="A catalog of the same name belongs to another connection, or a table and a view of "
        "the source have the same name.",
        remedy="Rename one of the connections or one of the objects.",
    )
    COVERAGE_UNKNOWN = Entry(
        docs_id="DR5854",
        meaning="The plan of a snapshot is missing, so its capture cannot be completed.",
        causes="The plan was removed from the store of artefacts.",
        remedy="Start another capture of the table.",
    )
    COVERAGE_MISMATCH = Entry(
        docs_id="DR5855",
        meaning="The recorded files of a snapshot are not exactly the planned ones; nothing was "
        "published.",
        causes="Records of the catalogue were removed or changed by hand.",
        remedy="Start another capture of the table with a full rescan.",
    )
    TOO_MANY_CHILDREN = Entry(
        docs_id="DR5856",
        meaning="A part of a capture has more parts of its own than the queue takes at once.",
        causes="More than 50,000 tables of a connection, or groups of files of a snapshot.",
        remedy="Name namespaces or tables in the scope of the capture.",
    )
    WORK_LEASE_EXPIRED = Entry(
        docs_id="DR5857",
        meaning="The workers of a part of a capture ended again and again without a result.",
        causes="A worker that is killed for its memory, or one that cannot reach the database.",
        remedy="Read the log of the capture-worker, give it more memory, and start the capture "
        "again.",
    )
    WORK_DEADLINE_EXCEEDED = Entry(
        docs_id="DR5858",
        meaning="A part of a capture took longer than an attempt may take.",
        causes="A slow source, or a table that is too large for the time.",
        remedy="Name fewer columns or tables, or add workers near the source.",
        retryable=True,
    )
    DEPENDENCY_TIMEOUT = Entry(
        docs_id="DR5859",
        meaning="What a part of a capture waits for did not become ready within 24 hours.",
        causes="Another part of the same capture does not end.",
        remedy="Cancel the capture and start it again.",
    )
    MISSING_DEFINITION = Entry(
        docs_id="DR5860",
        meaning="The stored definition of a part of a capture is missing or cannot be read.",
        causes="It was removed, or a newer release wrote it.",
        remedy="Start another capture.",
    )
    LEASE_LOST = Entry(
        docs_id="DR5861",
        meaning="A worker reported about work that is not its own any more; nothing was changed.",
        causes="Its lease expired and another worker took over, or the capture was cancelled.",
        remedy="None: the other worker reports.",
    )
    OUTCOME_REFUSED = Entry(
        docs_id="DR5862",
        meaning="What a worker reported does not fit its work; nothing was changed.",
        causes="A worker of another release, or files that were not planned.",
        remedy="Use workers of the release of the platform.",
    )
    CAPTURE_NOT_FOUND = Entry(
        docs_id="DR5863",
        meaning="There is no capture or part of a capture with this id.",
        causes="A mistake in the id, another tenant, or a capture that ended more than 24 h ago.",
        remedy="List the captures and take an id from there.",
    )
    CAPTURE_ENDED = Entry(
        docs_id="DR5864",
        meaning="The capture has ended, so it cannot be cancelled or released.",
        causes="It ended before the request arrived.",
        remedy="None; start another capture if you need one.",
    )
    WORK_CRASHED = Entry(
        docs_id="DR5865",
        meaning="The process that does a part of a capture ended without a result.",
        causes="A signal from outside, a crash of a library, or a defect.",
        remedy="Read the log of the capture-worker at this time; report it if it repeats.",
        retryable=True,
    )


class LeaseLostError(DatarecsError):
    """The work belongs to another epoch, or has ended otherwise."""

    code = CaptureCode.LEASE_LOST

    def __init__(self, *, item_id: UUID, epoch: int) -> None:
        super().__init__(
            f"work item {item_id} is not leased at epoch {epoch} any more; nothing was changed"
        )
        self.item_id, self.epoch = item_id, epoch


class OutcomeRefusedError(DatarecsError):
    """The report of a worker, with every fault."""

    code = CaptureCode.OUTCOME_REFUSED

    def __init__(self, *, item_id: UUID, faults: Sequence[str]) -> None:
        super().__init__(f"the report about work item {item_id} is refused: {'; '.join(faults)}")
        self.item_id, self.faults = item_id, tuple(faults)


class CaptureNotFoundError(DatarecsError):
    code = CaptureCode.CAPTURE_NOT_FOUND

    def __init__(self, *, item_id: UUID) -> None:
        super().__init__(f"there is no capture {item_id}")
        self.item_id = item_id


class CaptureEndedError(DatarecsError):
    code = CaptureCode.CAPTURE_ENDED

    def __init__(self, *, item_id: UUID, state: str) -> None:
        super().__init__(f"capture {item_id} has ended as {state}")
        self.item_id, self.state = item_id, state


class CaptureFailedError(DatarecsError):
    """A fault that another attempt does not change; its code says which."""

    def __init__(self, code: CaptureCode, message: str) -> None:
        super().__init__(message)
        self.code = code

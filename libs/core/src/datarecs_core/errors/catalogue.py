"""DR583: what the catalogue refuses, and its exceptions.

A separate family because every backend of the catalogue raises the same ones, and callers decide by
them whether to repeat, to report a conflict or to stop.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class CatalogueCode(ErrorCode):
    CATALOGUE_NOT_FOUND = Entry(
        docs_id="DR5831",
        meaning="The catalogue has no such object.",
        causes="It was never captured, was deleted, or belongs to another tenant.",
        remedy="Compare the id or the name with the objects of the catalogue.",
    )
    CATALOGUE_CONFLICT = Entry(
        docs_id="DR5832",
        meaning="Another object of the catalogue has this name or id, or the object has changed.",
        causes="Two writers at once, a name in use, or a version that is not the newest.",
        remedy="Read the object again and repeat the change, or choose another name.",
    )
    CATALOGUE_PRECONDITION_FAILED = Entry(
        docs_id="DR5833",
        meaning="A condition of a change of the catalogue does not hold; nothing was written.",
        causes="A parent or a snapshot does not exist, an object still has children, a snapshot is "
        "pinned by a run, or the expected version is not the newest.",
        remedy="Create the missing object, delete the children, or read the object again.",
    )
    CATALOGUE_BUSY = Entry(
        docs_id="DR5834",
        meaning="Other writers changed the same objects of the catalogue; nothing was written.",
        causes="Many writers at once, or a blob that is being removed as unreachable.",
        remedy="Repeat the change; it is safe to repeat.",
        retryable=True,
    )
    CATALOGUE_INCONSISTENT = Entry(
        docs_id="DR5835",
        meaning="Pointers or blobs of an object of the catalogue do not agree.",
        causes="Rows or blobs were removed by hand or restored from backups of different times.",
        remedy="Nothing is repaired automatically: restore database and blobs of the same time, or "
        "delete the object and capture it again.",
    )
    UNSUPPORTED_RECORD_VERSION = Entry(
        docs_id="DR5836",
        meaning="A stored record has a version, a field or a value that this release cannot read.",
        causes="A newer release wrote the record, and this one is older.",
        remedy="Use the release that wrote the record, or a newer one.",
        retryable=True,
    )
    POINTER_REFUSED = Entry(
        docs_id="DR5837",
        meaning="A pointer or a batch of the catalogue is refused before it is stored.",
        causes="A key of another account or one that is not canonical, a key twice in a batch, a "
        "batch, key or payload that is too large, a page token of another list.",
        remedy="Keys come from `datarecs_core.catalog.layout`, tokens from the page before; "
        "anything else is a defect.",
    )


class CatalogueNotFoundError(DatarecsError):
    code = CatalogueCode.CATALOGUE_NOT_FOUND

    def __init__(self, *, key: str) -> None:
        super().__init__(f"the catalogue has no object {key}")
        self.key = key


class NameConflictError(DatarecsError):
    """A name or an id belongs to another object; nothing was written."""

    code = CatalogueCode.CATALOGUE_CONFLICT

    def __init__(self, *, key: str) -> None:
        super().__init__(f"{key} belongs to another object of the catalogue; choose another name")
        self.key = key


class VersionConflictError(DatarecsError):
    """The object is not what the writer read; nothing was written."""

    code = CatalogueCode.CATALOGUE_CONFLICT

    def __init__(self, *, key: str, expected: int) -> None:
        super().__init__(
            f"{key} is not at version {expected} any more; read the object and repeat the change"
        )
        self.key, self.expected = key, expected


class ContentConflictError(DatarecsError):
    """A record that is written once exists with other content; nothing was written."""

    code = CatalogueCode.CATALOGUE_CONFLICT

    def __init__(self, *, key: str) -> None:
        super().__init__(f"{key} exists with other content, and this object is written once")
        self.key = key


class CataloguePreconditionError(DatarecsError):
    """A condition does not hold; nothing was written."""

    code = CatalogueCode.CATALOGUE_PRECONDITION_FAILED

    def __init__(self, *, key: str, rule: str) -> None:
        super().__init__(f"{key} was not changed in the catalogue: {rule}")
        self.key, self.rule = key, rule


class CatalogueBusyError(DatarecsError):
    """Others changed the same pointers in every try; nothing was written."""

    code = CatalogueCode.CATALOGUE_BUSY

    def __init__(self, *, key: str) -> None:
        super().__init__(f"other writers changed {key} of the catalogue at once; repeat the change")
        self.key = key


class CatalogueInconsistentError(DatarecsError):
    """Pointers and blobs do not agree; nothing is repaired."""

    code = CatalogueCode.CATALOGUE_INCONSISTENT

    def __init__(self, *, key: str, fault: str) -> None:
        super().__init__(f"pointers or blobs of {key} do not agree: {fault}")
        self.key, self.fault = key, fault


class UnsupportedRecordError(DatarecsError):
    """A record that this release cannot read completely; no part of it may be used."""

    code = CatalogueCode.UNSUPPORTED_RECORD_VERSION

    def __init__(self, *, kind: str, fault: str) -> None:
        super().__init__(f"a record {kind} cannot be read by this release: {fault}")
        self.kind, self.fault = kind, fault


class PointerRefusedError(DatarecsError):
    """A key, batch or token that the port does not accept; the backend was not called."""

    code = CatalogueCode.POINTER_REFUSED

    def __init__(self, *, rule: str) -> None:
        super().__init__(f"a pointer of the catalogue is refused: {rule}")
        self.rule = rule

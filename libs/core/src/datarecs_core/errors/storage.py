"""DR582: what a blob store refuses or cannot do, and its exceptions.

A separate family because every store, on disk or in memory, raises the same ones.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class StorageCode(ErrorCode):
    BLOB_NOT_FOUND = Entry(
        docs_id="DR5821",
        meaning="The blob does not exist.",
        causes="It was never written, was removed after its retention, or another store is "
        "configured than the one that was written to.",
        remedy="Compare DATARECS_BLOB__URL of the services; run the job again to create it again.",
    )
    BLOB_CONFLICT = Entry(
        docs_id="DR5822",
        meaning="A blob that may be written once exists with other bytes.",
        causes="Two attempts of one run wrote the same name, or the name was reused.",
        remedy="Nothing was overwritten; the first blob is unchanged. Report it; this is a defect.",
    )
    BLOB_CORRUPT = Entry(
        docs_id="DR5823",
        meaning="A stored file is damaged or does not have the expected format.",
        causes="A damaged disk, a truncated copy, an edited file, or a "
        "run.json or Parquet file of another program or release.",
        remedy="Restore the file that the message names from a backup, or run the job again; the "
        "name of a blob contains its expected SHA-256.",
    )
    BLOB_KEY_REFUSED = Entry(
        docs_id="DR5824",
        meaning="The name of a blob is refused: the store of this account may not use it.",
        causes="A name of another account, with `..`, or not in its canonical spelling.",
        remedy="Names come from `datarecs_core.catalog.layout`; any other name is a defect.",
    )
    BLOB_STORE_UNAVAILABLE = Entry(
        docs_id="DR5825",
        meaning="The blob store cannot be used.",
        causes="A disk that is full or read-only, a folder without write permission, a volume "
        "that does not distinguish upper and lower case, an address of an unknown kind; an object "
        "store that does not answer, refuses the credentials or ignores conditional writes.",
        remedy="Free space, or correct DATARECS_BLOB__URL and the settings beside it; work "
        "resumes automatically.",
        retryable=True,
    )


class BlobNotFoundError(DatarecsError):
    code = StorageCode.BLOB_NOT_FOUND

    def __init__(self, *, key: str) -> None:
        super().__init__(f"there is no blob {key}")
        self.key = key


class BlobConflictError(DatarecsError):
    """A create-only write found other bytes; nothing was changed."""

    code = StorageCode.BLOB_CONFLICT

    def __init__(self, *, key: str) -> None:
        super().__init__(f"blob {key} exists with other bytes; it was not overwritten")
        self.key = key


class BlobCorruptError(DatarecsError):
    """The content does not have the hash its key names; it must not be used."""

    code = StorageCode.BLOB_CORRUPT

    def __init__(self, *, key: str, actual_sha256: str) -> None:
        super().__init__(f"blob {key} is damaged: its content hashes to {actual_sha256}")
        self.key, self.actual_sha256 = key, actual_sha256


class BlobKeyRefusedError(DatarecsError):
    """A key that this store may not use; the backend was not called."""

    code = StorageCode.BLOB_KEY_REFUSED

    def __init__(self, *, rule: str) -> None:
        super().__init__(f"the blob's name is refused: {rule}")
        self.rule = rule


class BlobStoreUnavailableError(DatarecsError):
    """The backend failed; what was being written is not visible."""

    code = StorageCode.BLOB_STORE_UNAVAILABLE

    def __init__(self, *, where: str, cause: str) -> None:
        super().__init__(f"blob store {where} cannot be used: {cause}")
        self.where, self.cause = where, cause

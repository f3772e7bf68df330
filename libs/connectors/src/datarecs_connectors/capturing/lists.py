"""The identity of a list of files, which is the snapshot of a captured folder.

Separate from the capture because a run compares its own files with it, and needs no statistics.
"""

from collections.abc import Sequence

from datarecs_connectors.source_trees import ListedFile
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex


def native_id_of(files: Sequence[ListedFile]) -> str:
    """SHA-256 of the list of path, size and etag."""
    listed: list[JsonValue] = [[file.path, file.size_bytes, file.etag] for file in files]
    return sha256_hex(canonical_json(listed))


def state_of(digest: str, known: Sequence[str]) -> tuple[str, bool]:
    """The id of the state of a folder, and whether it is the newest known one.

    A folder that has again the files of an earlier snapshot is in a new state: the digest gets a
    number, else readers of the newest snapshot would have the files of the one in between.

    Args:
        digest: of the files as they are.
        known: ids of snapshots, the newest first.
    """
    same = [one for one in known if _digest_of(one) == digest]
    if not same:
        return digest, False
    if same[0] == known[0]:
        return known[0], True
    number = int(same[0].partition("-")[2] or 0) + 1  # not their count: old ones are removed
    return f"{digest}-{number}", False


def has_digest(native_id: str, digest: str) -> bool:
    """Whether an id of a state is that of these files."""
    return _digest_of(native_id) == digest


def _digest_of(native_id: str) -> str:
    return native_id.partition("-")[0]

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

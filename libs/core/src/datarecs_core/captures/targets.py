"""Ids of what statistics are about: the part of a key, never a text for people."""

from datarecs_core.hashing import sha256_hex


def table_target() -> str:
    return "table"


def file_target(path: str) -> str:
    return f"file-{sha256_hex(path.encode())}"


def column_target(field_id: int) -> str:
    return f"column-{field_id:019d}"

"""Ids of what statistics are about: the part of a key, never a text for people."""


def table_target() -> str:
    return "table"


def column_target(field_id: int) -> str:
    return f"column-{field_id:019d}"

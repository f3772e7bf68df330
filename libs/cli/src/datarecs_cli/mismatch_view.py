"""Stored differences side by side: which columns there are and what stands in them.

Apart from the command because for people an absent group is a word and for machines an absent
value, while both see the same rows in the same order.
"""

from collections.abc import Mapping, Sequence

from datarecs_cli.client import Json
from datarecs_cli.output import Column
from datarecs_core.comparison.plan import PRESENCE
from datarecs_reports.figures import amount, common_places, counted, share

MISSING = "missing"


def columns_of(items: Sequence[Json], sources: Sequence[str]) -> list[Column]:
    """Key, measure and class, then one column per source, then Δ and Δ % of each other one.

    Args:
        items: as `/mismatches` lists them, possibly of several stages.
        sources: names in the job's order; others that occur are added behind.
    """
    stages = {item.get("stage") for item in items}
    held = _ordered(sources, [name for item in items for name in _member(item, "values")])
    other = _ordered(sources, [name for item in items for name in _member(item, "deltas")])
    keys = _ordered((), [name for item in items for name in _member(item, "key")])
    found = [Column(title="STAGE", member="stage")] if len(stages) > 1 else []
    found += [Column(title=name, member=f"key {name}") for name in keys]
    found += [Column(title="MEASURE", member="measure"), Column(title="CLASS", member="class")]
    found += [Column(title=name, member=f"value {name}", number=True) for name in held]
    for name in other:
        of = f" {name}" if len(other) > 1 else ""
        found.append(Column(title=f"DELTA{of}", member=f"delta {name}", number=True))
        found.append(Column(title=f"DELTA %{of}", member=f"percent {name}", number=True))
    return found


def _ordered(first: Sequence[str], names: Sequence[str]) -> list[str]:
    """Without repetition: the known ones in their order, the rest as they occur."""
    occurring = dict.fromkeys(names)
    return [
        *(name for name in first if name in occurring),
        *(n for n in occurring if n not in first),
    ]


def row_of(item: Json, sources: Sequence[str], *, for_people: bool) -> Json:
    """One difference under the members that `columns_of` names."""
    row: dict[str, object] = {name: item.get(name) for name in ("stage", "class", "break_id")}
    presence = item.get("measure") == PRESENCE
    row["measure"] = "presence" if presence and for_people else item.get("measure")
    row |= {f"key {name}": _null(text, for_people) for name, text in _member(item, "key").items()}
    values = _member(item, "values")
    for name in dict.fromkeys((*sources, *values)):
        if presence:
            row[f"value {name}"] = _rows(values.get(name)) if for_people else values.get(name)
        elif name in values:
            row[f"value {name}"] = _null(values[name], for_people)
    row |= {f"delta {name}": text for name, text in _member(item, "deltas").items()}
    row |= {f"percent {name}": text for name, text in _member(item, "delta_percent").items()}
    return row


def _null(text: object, for_people: bool) -> object:  # noqa: FBT001  the one switch of this module
    return "NULL" if text is None and for_people else text


def _rows(text: object) -> str:
    """How many rows of the group a source has."""
    if text in (None, "0"):
        return MISSING
    return "1 row" if text == "1" else f"{amount(text)} rows"


def _member(item: Json, name: str) -> Mapping[str, object]:
    found = item.get(name)
    return found if isinstance(found, Mapping) else {}


def by_key(item: Json) -> tuple[str, ...]:
    """Sort key: the texts of the key, then the measure."""
    return (*(str(text) for text in _member(item, "key").values()), str(item.get("measure")))

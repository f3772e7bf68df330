"""Stored differences side by side: the columns and their values.

Texts for people show a missing group as a word, data for machines as an absent value; rows and
order are the same in both.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from datarecs_cli.client import Json
from datarecs_cli.output import Column
from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_reports.figures import amount, common_places, counted, share
from datarecs_reports.tables import delta_text, is_time_text

MISSING = "missing"


def columns_of(items: Sequence[Json], sources: Sequence[str]) -> list[Column]:
    """Key, measure and class, then one column per source, then Δ and Δ % of each other source.

    Args:
        items: as listed by `/mismatches`; may be of several stages.
        sources: names in the order of the job; further names are added at the end.
    """
    stages = {item.get("stage") for item in items}
    held = _ordered(sources, [name for item in items for name in _member(item, "values")])
    other = _ordered(sources, [name for item in items for name in _member(item, "deltas")])
    keys = _ordered((), [name for item in items for name in _member(item, "key")])
    written = _ordered(sources, [name for item in items for name in _member(item, "raw_keys")])
    columns = [Column(title="STAGE", member="stage")] if len(stages) > 1 else []
    columns += [Column(title=name, member=f"key {name}") for name in keys]
    columns += [Column(title=f"KEY IN {name}", member=f"raw key {name}") for name in written]
    columns += [Column(title="MEASURE", member="measure"), Column(title="CLASS", member="class")]
    columns += [Column(title=name, member=f"value {name}", number=True) for name in held]
    for name in other:
        of = f" {name}" if len(other) > 1 else ""
        columns.append(Column(title=f"DELTA{of}", member=f"delta {name}", number=True))
        columns.append(Column(title=f"DELTA %{of}", member=f"percent {name}", number=True))
    return columns


def _ordered(first: Sequence[str], names: Sequence[str]) -> list[str]:
    """Distinct names: known ones in their order, then the others in order of occurrence."""
    occurring = dict.fromkeys(names)
    return [
        *(name for name in first if name in occurring),
        *(n for n in occurring if n not in first),
    ]


def rows_for_machines(items: Sequence[Json]) -> list[Json]:
    """Values for the members of `columns_of`: exact text, nothing for absent values."""
    return [
        {
            **{name: item.get(name) for name in ("stage", "measure", "class")},
            **_named("key", _member(item, "key")),
            **_named("raw key", _member(item, "raw_keys")),
            **_named("value", _member(item, "values")),
            **_named("delta", _member(item, "deltas")),
            **_named("percent", _member(item, "delta_percent")),
        }
        for item in items
    ]


def rows_for_people(items: Sequence[Json], sources: Sequence[str]) -> list[Json]:
    """The same for people: aligned amounts of a measure, durations, missing groups."""
    texts: dict[object, list[str | None]] = defaultdict(list)
    for item in items:
        amounts = (*_member(item, "values").values(), *_member(item, "deltas").values())
        texts[item.get("measure")] += [_text(one) for one in amounts]
    places = {measure: common_places(cells) for measure, cells in texts.items()}
    return [_in_words(item, sources, places[item.get("measure")]) for item in items]


def _in_words(item: Json, sources: Sequence[str], places: int) -> Json:
    values, present = _member(item, "values"), item.get("measure") != PRESENCE
    if present:
        shown = {name: _shown(value, places) for name, value in values.items()}
    else:
        shown = {name: _rows(values.get(name)) for name in dict.fromkeys((*sources, *values))}
    timed = any(is_time_text(_text(value)) for value in values.values())
    deltas = {
        name: "NULL" if one is None else delta_text(str(one), places=places, is_time=timed)
        for name, one in _member(item, "deltas").items()
    }
    percents = {
        name: share(str(one))
        for name, one in _member(item, "delta_percent").items()
        if not timed  # a date has none
    }
    return {
        "stage": item.get("stage"),
        "measure": item.get("measure") if present else "presence",
        "class": item.get("class"),
        **_named("key", {name: _key(one) for name, one in _member(item, "key").items()}),
        **_named("raw key", {name: _key(one) for name, one in _member(item, "raw_keys").items()}),
        **_named("value", shown),
        **_named("delta", deltas),
        **_named("percent", percents),
    }


def _named(lead: str, members: Mapping[str, object]) -> dict[str, object]:
    return {f"{lead} {name}": value for name, value in members.items()}


def _shown(value: object, places: int) -> str:
    return "NULL" if value is None else amount(str(value), places=places)


def _key(text: object) -> object:
    """A key as text, even if it looks like a number."""
    return "NULL" if text is None else text


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _rows(text: object) -> str:
    """Number of rows of the group in a source."""
    if text in (None, "0"):
        return MISSING
    number = str(text)
    return counted(int(number), "row") if number.isdecimal() else number


def _member(item: Json, name: str) -> Mapping[str, object]:
    member = item.get(name)
    return member if isinstance(member, Mapping) else {}


def by_key(item: Json) -> tuple[str, ...]:
    """Sort key: the texts of the key, then the measure."""
    return (*(str(text) for text in _member(item, "key").values()), str(item.get("measure")))

"""The gate in front of a release: what readers can bear, and what is a new type."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from datarecs_events.catalogue import BY_TYPE, CATALOGUE, DataRecsEventType
from datarecs_events.compatibility import breaking_changes
from datarecs_events.json_schema import schema_of

Schema = dict[str, Any]
OLD = schema_of(BY_TYPE[DataRecsEventType.RUN_COMPARISON_COMPLETED])


def changed(change: Callable[[Schema], object], *, raised: bool = True) -> tuple[str, ...]:
    new = copy.deepcopy(OLD)
    change(new)
    if raised:
        new["$id"] = new["$id"].removesuffix(".1") + ".2"
    return breaking_changes(OLD, new)


def tolerance(schema: Schema) -> Schema:
    items: Schema = schema["properties"]["tolerances"]["items"]
    return items


@pytest.mark.case("L40")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda new: new["properties"].pop("in_flight_resolved"), "in_flight_resolved: removed"),
        (
            lambda new: new["properties"].update(
                matched_rows=new["properties"].pop("rows_matched")
            ),
            "rows_matched: removed",
        ),
        (lambda new: new["properties"]["attempt"].update(type="string"), "attempt.: type"),
        (lambda new: new["properties"]["stage_name"].update(maxLength=100), "maxLength"),
        (lambda new: new["properties"]["attempt"].update(minimum=2), "minimum"),
        (lambda new: new["properties"]["stage_name"].update(minLength=1), "minLength"),
        (lambda new: new["required"].append("stage_name"), "stage_name: now required"),
        (lambda new: new["required"].remove("result"), "result: no longer required"),
        (lambda new: new["properties"]["result"]["enum"].append("PARTIAL"), "result.: enum"),
        (lambda new: tolerance(new)["properties"].pop("combine"), "combine: removed"),
        (lambda new: tolerance(new)["required"].append("combine"), "combine: now required"),
        (
            lambda new: new["properties"]["source_row_counts"]["additionalProperties"].update(
                type="string"
            ),
            "type changed",
        ),
        (lambda new: new.update(oneOf=[{"required": ["result"]}]), "the payload: oneOf"),
    ],
    ids=[
        "remove",
        "rename",
        "retype",
        "narrow",
        "narrow below",
        "narrow anew",
        "require",
        "make optional",
        "closed enum",
        "remove inside",
        "require inside",
        "retype inside",
        "new rule",
    ],
)
def test_a_change_that_breaks_readers_is_refused(
    change: Callable[[Schema], object], words: str
) -> None:
    assert any(words in one for one in changed(change))


def an_optional_field(new: Schema) -> None:
    new["properties"]["later"] = {"type": "string", "maxLength": 2000}


def an_optional_field_inside(new: Schema) -> None:
    tolerance(new)["properties"]["later"] = {"type": "string"}


@pytest.mark.case("L40")
@pytest.mark.parametrize("change", [an_optional_field, an_optional_field_inside])
def test_an_optional_field_may_come_with_a_raised_addition(
    change: Callable[[Schema], object],
) -> None:
    assert changed(change) == ()
    assert any("addition number must be increased" in one for one in changed(change, raised=False))


def test_texts_for_people_and_wider_limits_break_nobody() -> None:
    def change(new: Schema) -> None:
        new["description"] = "Another wording."
        new["properties"]["stage_name"]["maxLength"] = 4000

    assert changed(change, raised=False) == ()


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.short_name)
def test_every_schema_is_compatible_with_itself(one: Any) -> None:  # noqa: ANN401 - EventDef
    assert breaking_changes(schema_of(one), schema_of(one)) == ()

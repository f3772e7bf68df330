"""The differences of a run that a server lists: the largest, with their columns."""

from collections.abc import Mapping

from datarecs_cli.client import Api
from datarecs_cli.exporting import Layout, Row
from datarecs_cli.invocation import UsageFault
from datarecs_cli.triggering import source_names

MOST_OF_A_SERVER = 1000


def listed_differences(
    api: Api, run_id: str, filters: Mapping[str, str]
) -> tuple[Layout, list[Row]]:
    """Columns and rows, at most `MOST_OF_A_SERVER`.

    Args:
        api: the API of the server.
        run_id: the whole id.
        filters: `only`, `measure` and `stage`, as in the API.

    Raises:
        UsageFault: the run has no result.
        RefusedError: it is unknown, or the key may not read it.
    """
    state = api.get("runs", run_id)
    if state.get("result") is None:
        raise UsageFault(f"run {run_id} is {state['status']} and has no result")
    answer = api.get("runs", run_id, "mismatches", limit=str(MOST_OF_A_SERVER), **filters)
    items = answer.get("items")
    rows = [row for row in items if isinstance(row, Mapping)] if isinstance(items, list) else []
    keys = (str(name) for row in rows for name in _key_of(row))
    sources = source_names(api, state)
    return Layout(dimensions=tuple(dict.fromkeys(keys)), sources=tuple(sources)), rows


def _key_of(row: Row) -> Mapping[str, object]:
    key = row.get("key")
    return key if isinstance(key, Mapping) else {}

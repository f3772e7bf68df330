"""What `diff` shows to people and to machines, without a server."""

from datarecs_cli.client import Json
from datarecs_cli.mismatch_view import rows_for_machines, rows_for_people


def a_row(measure: str, values: tuple[str, str], delta: str) -> Json:
    names = ("ledger", "exports")
    return {
        "stage": "rows",
        "measure": measure,
        "class": "OUTSIDE",
        "key": {"id": "1"},
        "values": dict(zip(names, values, strict=True)),
        "deltas": {"exports": delta},
        "delta_percent": {"exports": "0.5"},
    }


def test_differences_of_times_are_lengths_for_people_and_numbers_for_machines() -> None:
    rows = [
        a_row("booked", ("2026-01-01", "2026-01-26"), "2160000000000"),
        a_row("amount", ("20", "20.10"), "0.1"),
    ]
    people = rows_for_people(rows, ("ledger", "exports"))
    assert [row["delta exports"] for row in people] == ["25 d", "0.10"]
    assert [row.get("percent exports") for row in people] == [None, "0.5 %"]
    machines = rows_for_machines(rows)
    assert [row["delta exports"] for row in machines] == ["2160000000000", "0.1"]

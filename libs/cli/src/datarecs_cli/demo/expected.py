"""The expected results of the demo's two runs: the sample of Source 001, then full agreement.

They are compared with the platform's event, so that a wrong number anywhere between the sources
and the wire fails the demo.
"""

from collections.abc import Iterator, Mapping

from datarecs_events.event_types import DataRecsEventType

Data = Mapping[str, object]
COMPARED = DataRecsEventType.RUN_COMPARISON_COMPLETED.value
FIRST: Data = {
    "source_row_counts": {"source_0": 1000, "source_1": 1005},
    "join_stats": {
        "matched_groups": 980,
        "unmatched_by_source": {"source_0": 5, "source_1": 20},
    },
    "tolerances": [
        {
            "measure_name": "total_amount",
            "tolerance_type": "ABSOLUTE",
            "tolerance_value_exact": "0.01",
            "within_tolerance_count": 975,
            "outside_tolerance_count": 5,
            "passed": False,
        }
    ],
    "result": "UNMATCHED",
    "rows_compared": 1005,
    "rows_matched": 975,
    "rows_unmatched": 30,
}
SECOND: Data = {
    "source_row_counts": {"source_0": 1000, "source_1": 990},
    "join_stats": {
        "matched_groups": 985,
        "unmatched_by_source": {"source_0": 0, "source_1": 0},
    },
    "tolerances": [{"within_tolerance_count": 985, "outside_tolerance_count": 0, "passed": True}],
    "result": "MATCHED",
    "rows_compared": 985,
    "rows_matched": 985,
    "rows_unmatched": 0,
}
GAP = "-1234.56"
"""Gap of total_amount, exports minus ledger, in the first run."""


def departures(expected: object, actual: object, path: str = "") -> Iterator[str]:
    """Every expected number that differs; further members are allowed."""
    match expected, actual:
        case Mapping(), Mapping():
            for name, value in expected.items():
                yield from departures(value, actual.get(name), f"{path}.{name}".lstrip("."))
        case list(), list() if len(expected) == len(actual):
            for index, value in enumerate(expected):
                yield from departures(value, actual[index], f"{path}[{index}]")
        case _ if expected != actual:
            yield f"{path} is {actual!r} instead of {expected!r}"

"""Declarations before the first case: books, jobs over them, receivers of mails and webhooks."""

from typing import TYPE_CHECKING

from datarecs_core.resources.resource import Kind
from datarecs_testing.crashes.child import HELD, ON_SPARK

if TYPE_CHECKING:
    from datarecs_testing.crashes.house import House

RECIPIENTS = frozenset({"ana@demo.localhost", "bo@demo.localhost"})
JOBS = {"same": ("a", "b"), "other": ("a", "c"), HELD: ("a", "b"), ON_SPARK: ("a", "b")}
"""Name -> its two CSV sources; `c` differs."""


def furnish(house: "House") -> None:
    """Three small books, the jobs over them, and all receivers."""
    for name, last in {"a": "2.50", "b": "2.50", "c": "9.75"}.items():
        (house.folder / f"{name}.csv").write_text(
            f"id,amount\n1,1.25\n2,{last}\n", encoding="utf-8"
        )
    house.declare(Kind.CONNECTION, "here", {"type": "files", "config": {"root": "."}})
    for job, sources in JOBS.items():
        house.declare(Kind.RECONCILIATION_JOB, job, job_over(sources))
    everybody = {
        "match": {"outcomes": ["MATCHED", "UNMATCHED", "ERRORED"]},
        "notify": "every_run",
        "to": [{"address": one} for one in sorted(RECIPIENTS)],
    }
    house.declare(Kind.NOTIFICATION_RULE, "everybody", everybody)
    globs = {"all": "reconciliation.run.**", "ends": "reconciliation.run.finalised"}
    for name, receiver in house.receivers.items():
        types = [globs[name]] + (["reconciliation.run.cancelled"] if name == "ends" else [])
        spec = {
            "url": receiver.url,
            "filter": {"types": types},
            "limits": {"rate_per_minute": 6000, "max_concurrent": 8},
        }
        house.declare(Kind.WEBHOOK_ENDPOINT, name, spec)


def job_over(sources: tuple[str, ...], **spec: object) -> dict[str, object]:
    """A job over these books, with further fields of its spec."""
    measure = {"name": "amount", "tolerances": [{"type": "ABSOLUTE", "value": "0.01"}]}
    return {
        "sources": [
            {"name": f"s{index}", "kind": "csv", "connection": "here", "path": f"{source}.csv"}
            for index, source in enumerate(sources)
        ],
        "stages": [
            {"name": "counts", "type": "counts"},
            {"name": "rows", "type": "row", "dimensions": ["id"], "measures": [measure]},
        ],
        **spec,
    }

"""The ledger finds each kind of fault: one that finds nothing would show nothing."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from datarecs_testing.crashes.ledger import (
    CANCELLED,
    FINALISED,
    Copy,
    Expected,
    Fact,
    OutboxEntry,
    RunSeen,
    Seen,
    settle,
)

QUEUED = "io.datarecs.reconciliation.run.queued"
ANA = "ana@example.com"
EXPECTED = Expected(
    runs={"r": frozenset({"COMPLETED"})},
    recipients=frozenset({ANA}),
    endpoints={"all": None, "ends": frozenset({FINALISED, CANCELLED})},
    poison=frozenset({"p"}),
    poisoned_groups=frozenset({"controller"}),
)
CLEAN = Seen(
    runs=(RunSeen(run_id="r", status="COMPLETED", last_sequence=2),),
    history=(
        Fact(run_id="r", sequence=1, event_id="q", type=QUEUED),
        Fact(run_id="r", sequence=2, event_id="f", type=FINALISED),
    ),
    outbox=(
        OutboxEntry(event_id="q", type=QUEUED, sent=True, caused_by=None),
        OutboxEntry(event_id="f", type=FINALISED, sent=True, caused_by="q"),
    ),
    records=(
        Copy(where="platform", identity="q", content="1", subject="r", sequence=1),
        Copy(where="platform", identity="f", content="2", subject="r", sequence=2),
    ),
    dead_letters=(Copy(where="controller", identity="p", content="3"),),
    mails=(Copy(where=ANA, identity="m", content="4", subject="r"),),
    requests=(
        Copy(where="all", identity="q", content="5"),
        Copy(where="all", identity="f", content="6"),
        Copy(where="ends", identity="f", content="6"),
    ),
)


def without(things: tuple[Copy, ...], identity: str, where: str) -> tuple[Copy, ...]:
    return tuple(one for one in things if (one.identity, one.where) != (identity, where))


BROKEN: dict[str, Callable[[Seen], Seen]] = {
    "lost": lambda seen: replace(seen, runs=()),
    "ERRORED, may be COMPLETED": lambda seen: replace(
        seen, runs=(replace(seen.runs[0], status="ERRORED"),)
    ),
    "RUNNING, may be COMPLETED": lambda seen: replace(
        seen, runs=(replace(seen.runs[0], status="RUNNING"),)
    ),
    "it was not requested": lambda seen: replace(
        seen, runs=(*seen.runs, replace(seen.runs[0], run_id="other"))
    ),
    "COMPLETED with the ends": lambda seen: replace(
        seen, history=(*seen.history, replace(seen.history[1], sequence=3, type=CANCELLED))
    ),
    "times io.datarecs.reconciliation.run.queued": lambda seen: replace(
        seen, history=(*seen.history, replace(seen.history[0], sequence=3))
    ),
    "sequences [1, 3]": lambda seen: replace(
        seen, history=(seen.history[0], replace(seen.history[1], sequence=3))
    ),
    "but 7 in its row": lambda seen: replace(seen, runs=(replace(seen.runs[0], last_sequence=7),)),
    "which does not exist": lambda seen: replace(
        seen, outbox=(seen.outbox[0], replace(seen.outbox[1], caused_by="gone"))
    ),
    "never on the wire, marked sent: True": lambda seen: replace(seen, records=seen.records[:1]),
    "never on the wire, marked sent: False": lambda seen: replace(
        seen, outbox=(seen.outbox[0], replace(seen.outbox[1], sent=False))
    ),
    "on the wire, but not in the outbox": lambda seen: replace(
        seen, records=(*seen.records, replace(seen.records[1], identity="x", sequence=3))
    ),
    "run r: 2 ends on the wire": lambda seen: replace(
        seen,
        outbox=(*seen.outbox, replace(seen.outbox[1], event_id="g")),
        records=(*seen.records, replace(seen.records[1], identity="g", sequence=3)),
    ),
    "record f: its copies differ": lambda seen: replace(
        seen, records=(*seen.records, replace(seen.records[1], content="other"))
    ),
    "record q: 1 after 2 of r": lambda seen: replace(seen, records=seen.records[::-1]),
    "controller: p was not set aside": lambda seen: replace(seen, dead_letters=()),
    "controller: f was set aside": lambda seen: replace(
        seen,
        dead_letters=(*seen.dead_letters, Copy(where="controller", identity="f", content="2")),
    ),
    "mail-service: p was set aside": lambda seen: replace(
        seen,
        dead_letters=(*seen.dead_letters, Copy(where="mail-service", identity="p", content="3")),
    ),
    "run r: no mail to ana@example.com": lambda seen: replace(seen, mails=()),
    "run s: a mail to ana@example.com": lambda seen: replace(
        seen, mails=(*seen.mails, replace(seen.mails[0], subject="s"))
    ),
    "different mails to ana@example.com": lambda seen: replace(
        seen, mails=(*seen.mails, replace(seen.mails[0], identity="n"))
    ),
    "mail r to ana@example.com: its copies differ": lambda seen: replace(
        seen, mails=(*seen.mails, replace(seen.mails[0], content="other"))
    ),
    "ends: f was not delivered": lambda seen: replace(
        seen, requests=without(seen.requests, "f", "ends")
    ),
    "ends: q was delivered": lambda seen: replace(
        seen, requests=(*seen.requests, Copy(where="ends", identity="q", content="5"))
    ),
    "request to all f: its copies differ": lambda seen: replace(
        seen, requests=(*seen.requests, Copy(where="all", identity="f", content="other"))
    ),
}


def test_what_went_well_has_no_fault_and_is_counted() -> None:
    verdict = settle(EXPECTED, CLEAN)
    assert verdict.faults == ()
    assert verdict.counts["runs COMPLETED"] == 1
    assert verdict.counts["requests"] == 3


def test_equal_repetitions_are_counted_and_no_fault() -> None:
    twice = replace(
        CLEAN,
        records=(*CLEAN.records, *CLEAN.records),
        dead_letters=CLEAN.dead_letters * 2,
        mails=CLEAN.mails * 2,
        requests=CLEAN.requests * 3,
    )
    verdict = settle(EXPECTED, twice)
    assert verdict.faults == ()
    repeated = {name: n for name, n in verdict.counts.items() if name.endswith("repeated")}
    assert repeated == {
        "records repeated": 2,
        "dead letters repeated": 1,
        "mails repeated": 1,
        "requests repeated": 6,
    }


@pytest.mark.parametrize("fault", BROKEN)
def test_each_fault_is_detected(fault: str) -> None:
    faults = settle(EXPECTED, BROKEN[fault](CLEAN)).faults
    assert any(fault in one for one in faults), faults

"""The ledger: compare the expected effects of runs with the actual ones.

Pure, so that a separate test shows each fault. A repetition on the wire with the same id and bytes
is not a fault; it is counted. An effect (an end, a mail, a webhook) happens once, by the identity
that its receiver uses.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

FINALISED = "io.datarecs.reconciliation.run.finalised"
CANCELLED = "io.datarecs.reconciliation.run.cancelled"
ENDS = frozenset({FINALISED, CANCELLED})
ONCE = ENDS | {
    f"io.datarecs.reconciliation.run.{name}"
    for name in ("triggered", "queued", "queue_errored", "cancel_requested", "completed", "errored")
}
"""Entries that occur at most once in the history of a run, for any repetitions."""
TERMINAL = frozenset({"COMPLETED", "ERRORED", "CANCELLED", "QUEUE_ERRORED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected effects; callers record them before they use the answer."""

    runs: Mapping[str, frozenset[str]]
    """Run id -> allowed final statuses."""
    recipients: frozenset[str] = frozenset()
    """Recipients of one mail about each finalised run."""
    endpoints: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """Endpoint -> its event types; None for all of runs."""
    poison: frozenset[str] = frozenset()
    """Ids of records that must be set aside by every group of `poisoned_groups`."""
    poisoned_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A row of `run`."""

    run_id: str
    status: str
    last_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A row of `run_event`, in the order of its sequence."""

    run_id: str
    sequence: int
    event_id: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A row of the outbox."""

    event_id: str
    type: str
    sent: bool
    caused_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One thing that left the platform: a record, a mail, a request."""

    where: str
    """Topic, recipient or endpoint."""
    identity: str
    """Identity by which its receiver detects a repetition."""
    content: str
    """A digest of its bytes."""
    subject: str = ""
    """Of a record: key; of a mail: run id."""
    sequence: int = 0
    """Of a record: `runsequence`, 0 where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All observed data, after everything is at rest."""

    runs: tuple[RunSeen, ...]
    history: tuple[Fact, ...]
    outbox: tuple[OutboxEntry, ...]
    records: tuple[Copy, ...]
    """In the order of their partitions, which is that of each key."""
    dead_letters: tuple[Copy, ...] = ()
    """`where` is the group."""
    mails: tuple[Copy, ...] = ()
    requests: tuple[Copy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    faults: tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        return not self.faults


def settle(expected: Expected, seen: Seen) -> Verdict:
    """Every fault, in a stable order, and the counts for the report."""
    faults = (
        *_runs(expected, seen),
        *_history(seen),
        *_causes(seen),
        *_relayed(seen),
        *_repeated_ends(seen),
        *_in_order(seen.records),
        *_dead_letters(expected, seen),
        *_mails(expected, seen),
        *_requests(expected, seen),
    )
    return Verdict(faults=tuple(sorted(set(faults))), counts=_counts(seen))


def _runs(expected: Expected, seen: Seen) -> Iterator[str]:
    runs = {one.run_id: one for one in seen.runs}
    ends = _ends(seen)
    for run_id in expected.runs.keys() | runs.keys():
        run, allowed = runs.get(run_id), expected.runs.get(run_id)
        if run is None or allowed is None:
            yield f"run {run_id}: {'lost' if run is None else 'it was not requested'}"
            continue
        if run.status not in allowed:
            yield f"run {run_id}: {run.status}, may be {', '.join(sorted(allowed))}"
        wanted = [CANCELLED] if run.status == "CANCELLED" else [FINALISED]
        if run.status in TERMINAL and ends[run_id] != wanted:
            yield f"run {run_id}: {run.status} with the ends {ends[run_id]}"


def _ends(seen: Seen) -> Mapping[str, list[str]]:
    ends: dict[str, list[str]] = defaultdict(list)
    for fact in seen.history:
        if fact.type in ENDS:
            ends[fact.run_id].append(fact.type)
    return ends


def _history(seen: Seen) -> Iterator[str]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for fact in seen.history:
        numbers[fact.run_id].append(fact.sequence)
    for run in seen.runs:
        sequences = numbers[run.run_id]
        if sequences != list(range(1, len(sequences) + 1)) or run.last_sequence != len(sequences):
            yield f"run {run.run_id}: sequences {sequences}, but {run.last_sequence} in its row"
    times = Counter((fact.run_id, fact.type) for fact in seen.history if fact.type in ONCE)
    yield from (
        f"run {run}: {count} times {kind}" for (run, kind), count in times.items() if count > 1
    )


def _causes(seen: Seen) -> Iterator[str]:
    known = {fact.event_id for fact in seen.history} | {one.event_id for one in seen.outbox}
    for one in seen.outbox:
        if one.caused_by is not None and one.caused_by not in known:
            yield f"event {one.event_id} ({one.type}): cause {one.caused_by}, which does not exist"


def _relayed(seen: Seen) -> Iterator[str]:
    copies = _copies(seen.records)
    recorded_ids = {one.event_id for one in seen.outbox}
    for one in seen.outbox:
        if not one.sent or one.event_id not in copies:
            yield f"event {one.event_id} ({one.type}): never on the wire, marked sent: {one.sent}"
    for identity, things in copies.items():
        if identity not in recorded_ids:
            yield f"record {identity}: on the wire, but not in the outbox"
        yield from _differing("record", identity, things)


def _repeated_ends(seen: Seen) -> Iterator[str]:
    """By effect: the distinct ids of ends under one key."""
    kinds = {one.event_id: one.type for one in seen.outbox}
    ends: dict[str, set[str]] = defaultdict(set)
    for record in seen.records:
        if kinds.get(record.identity) in ENDS:
            ends[record.subject].add(record.identity)
    yield from (
        f"run {run}: {len(ids)} ends on the wire" for run, ids in ends.items() if len(ids) > 1
    )


def _in_order(records: Iterable[Copy]) -> Iterator[str]:
    """New records of a key arrive in order; repetitions may arrive at any time."""
    newest: dict[tuple[str, str], int] = {}
    known: set[str] = set()
    for one in records:
        if one.identity in known or not one.sequence:
            continue
        known.add(one.identity)
        line = (one.where, one.subject)
        if one.sequence <= newest.get(line, 0):
            yield f"record {one.identity}: {one.sequence} after {newest[line]} of {one.subject}"
        newest[line] = one.sequence


def _dead_letters(expected: Expected, seen: Seen) -> Iterator[str]:
    for group in expected.poisoned_groups | {one.where for one in seen.dead_letters}:
        copies = _copies(one for one in seen.dead_letters if one.where == group)
        wanted = expected.poison if group in expected.poisoned_groups else frozenset()
        yield from (f"{group}: {one} was not set aside" for one in wanted - copies.keys())
        yield from (f"{group}: {one} was set aside" for one in copies.keys() - wanted)
        for identity, letters in copies.items():
            yield from _differing(f"dead letter of {group}", identity, letters)


def _mails(expected: Expected, seen: Seen) -> Iterator[str]:
    finalised = {run for run, ends in _ends(seen).items() if FINALISED in ends}
    wanted = {(run, who) for run in finalised for who in expected.recipients}
    by_line: dict[tuple[str, str], list[Copy]] = defaultdict(list)
    for mail in seen.mails:
        by_line[mail.subject, mail.where].append(mail)
    yield from (f"run {run}: no mail to {who}" for run, who in wanted - by_line.keys())
    yield from (f"run {run}: a mail to {who}" for run, who in by_line.keys() - wanted)
    for (run, who), mails in by_line.items():
        if len({one.identity for one in mails}) > 1:
            yield f"run {run}: {len(mails)} different mails to {who}"
        yield from _differing("mail", f"{run} to {who}", mails)


def _requests(expected: Expected, seen: Seen) -> Iterator[str]:
    in_runs = {fact.event_id for fact in seen.history}
    of_runs = [one for one in seen.outbox if one.event_id in in_runs]
    for endpoint, types in expected.endpoints.items():
        wanted = {one.event_id for one in of_runs if types is None or one.type in types}
        copies = _copies(one for one in seen.requests if one.where == endpoint)
        yield from (f"{endpoint}: {one} was not delivered" for one in wanted - copies.keys())
        yield from (f"{endpoint}: {one} was delivered" for one in copies.keys() - wanted)
        for identity, requests in copies.items():
            yield from _differing(f"request to {endpoint}", identity, requests)


def _copies(things: Iterable[Copy]) -> Mapping[str, list[Copy]]:
    copies: dict[str, list[Copy]] = defaultdict(list)
    for one in things:
        copies[one.identity].append(one)
    return copies


def _differing(what: str, identity: str, copies: Iterable[Copy]) -> Iterator[str]:
    if len({one.content for one in copies}) > 1:
        yield f"{what} {identity}: its copies differ"


def _counts(seen: Seen) -> Mapping[str, int]:
    statuses = Counter(f"runs {run.status}" for run in seen.runs)
    repeated = {
        "records": seen.records,
        "dead letters": seen.dead_letters,
        "mails": seen.mails,
        "requests": seen.requests,
    }
    counts = {"runs": len(seen.runs), **dict(sorted(statuses.items())), "events": len(seen.outbox)}
    counts["events with a cause"] = sum(one.caused_by is not None for one in seen.outbox)
    for name, copies in repeated.items():
        distinct = len({(one.where, one.identity) for one in copies})
        counts |= {name: distinct, f"{name} repeated": len(copies) - distinct}
    return counts

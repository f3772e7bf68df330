"""What a controller reports about an object: conditions by type, and the phase made from them.

A condition is one claim with its reason. Its time moves only when its status flips, so an equal
report leaves the stored status as it is. The phase is a word for tables; nothing branches on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from datarecs_core.messages import shortened
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import instant_text


class Truth(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"

    @classmethod
    def of(cls, value: bool) -> "Truth":  # noqa: FBT001  a claim as a condition spells it
        return cls.TRUE if value else cls.FALSE


class ConditionType(StrEnum):
    """The conditions that the platform itself reads or writes; a controller may add others."""

    READY = "Ready"
    VALID = "Valid"
    REFERENCES_RESOLVED = "ReferencesResolved"
    PAUSED = "Paused"
    THRASHING = "Thrashing"
    DELETION_BLOCKED = "DeletionBlocked"
    PROGRESSING = "Progressing"
    COMMITTING = "Committing"
    LAGGING = "Lagging"
    FENCED = "Fenced"
    PROVEN = "Proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One claim of a controller, as observed now."""

    type: str
    status: Truth
    reason: str
    """CamelCase, for programs."""
    message: str = ""
    """For people: what is wrong, where, and what to do."""


def conditions_of(status: Mapping[str, object]) -> dict[str, Condition]:
    """The stored conditions by type; what has another form is left out."""
    written = status.get("conditions")
    conditions = {}
    for one in written if isinstance(written, list | tuple) else ():
        if isinstance(one, Mapping) and one.get("status") in set(Truth):
            conditions[str(one.get("type"))] = Condition(
                type=str(one.get("type")),
                status=Truth(str(one["status"])),
                reason=str(one.get("reason", "")),
                message=str(one.get("message", "")),
            )
    return conditions


def status_with(
    before: Mapping[str, object],
    conditions: Sequence[Condition],
    *,
    details: Mapping[str, object],
    generation: int,
    now: datetime,
) -> Mapping[str, object]:
    """The status to store; equal to `before` when nothing differs.

    Args:
        before: the stored status; times of conditions with an equal status are taken from it.
        conditions: all that hold now, one per type; a type that is not named is removed.
        details: the other fields of the status.
        generation: of the declaration that was observed.
        now: database time.
    """
    earlier = _times(before)
    written = [
        {
            "type": one.type,
            "status": one.status.value,
            "reason": one.reason,
            "message": shortened(one.message),
            "last_transition_time": earlier.get((one.type, one.status.value), instant_text(now)),
            "observed_generation": generation,
        }
        for one in sorted(conditions, key=lambda one: one.type)
    ]
    return {**details, "conditions": written}


def _times(before: Mapping[str, object]) -> dict[tuple[str, str], object]:
    written = before.get("conditions")
    return {
        (str(one.get("type")), str(one.get("status"))): one["last_transition_time"]
        for one in (written if isinstance(written, list | tuple) else ())
        if isinstance(one, Mapping) and "last_transition_time" in one
    }


def is_current(resource: Resource) -> bool:
    """Whether the status was decided on the current declaration."""
    return resource.observed_generation == resource.generation


_WITH_PHASES = frozenset({Kind.CONNECTION, Kind.RECONCILIATION_JOB, Kind.CAPTURE, Kind.SINK_TABLE})


def phase_of(resource: Resource) -> str | None:
    """One word for tables; None for a kind without phases."""
    if resource.kind not in _WITH_PHASES:
        return None
    if resource.deletion_at is not None:
        return "Deleting"
    conditions = conditions_of(resource.status)
    if is_true(conditions, ConditionType.PAUSED):
        return "Paused"
    return _phase(resource.kind, conditions) if is_current(resource) else "Pending"


def _phase(kind: Kind, conditions: Mapping[str, Condition]) -> str:
    if is_false(conditions, ConditionType.VALID):
        return "Invalid"
    if kind is not Kind.RECONCILIATION_JOB and is_false(conditions, ConditionType.READY):
        return "Degraded"
    if kind is Kind.SINK_TABLE:
        return "Committing" if is_true(conditions, ConditionType.COMMITTING) else "Starting"
    if is_true(conditions, ConditionType.PROGRESSING):
        return "Capturing"
    return "Ready" if is_true(conditions, ConditionType.READY) else "Pending"


def is_true(conditions: Mapping[str, Condition], name: str) -> bool:
    return name in conditions and conditions[name].status is Truth.TRUE


def is_false(conditions: Mapping[str, Condition], name: str) -> bool:
    return name in conditions and conditions[name].status is Truth.FALSE

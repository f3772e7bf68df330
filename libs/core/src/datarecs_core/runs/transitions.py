"""Every change of status that a run can make, and why: the picture of the state machine.

`decide` is the rule; this list is its published outline, from which the documentation's diagram
is printed. A test derives it from `decide`, so that neither can grow alone.
"""

from dataclasses import dataclass

from datarecs_core.runs.model import RunStatus

_T, _Q, _R = RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class Transition:
    before: RunStatus
    after: RunStatus
    why: str
    """What people call it."""


TRANSITIONS: tuple[Transition, ...] = (
    Transition(_T, _Q, "the backend accepts"),
    Transition(_T, _R, "progress overtakes the submit reply"),
    Transition(_T, RunStatus.COMPLETED, "the end overtakes the submit reply"),
    Transition(_T, RunStatus.ERRORED, "the end overtakes the submit reply"),
    Transition(_T, RunStatus.QUEUE_ERRORED, "the backend refuses, or does not answer in time"),
    Transition(_T, RunStatus.CANCELLED, "cancelled"),
    Transition(_Q, _R, "a worker takes the run"),
    Transition(_Q, RunStatus.COMPLETED, "run.completed"),
    Transition(_Q, RunStatus.ERRORED, "run.errored, or no worker in time"),
    Transition(_Q, RunStatus.CANCELLED, "cancelled"),
    Transition(_R, RunStatus.COMPLETED, "run.completed, even after a cancel request"),
    Transition(_R, RunStatus.ERRORED, "run.errored, deadline, or no attempt left"),
    Transition(_R, RunStatus.CANCELLED, "an error, a loss or no stop after a cancel request"),
)


def state_diagram() -> str:
    """The transitions as a Mermaid state diagram, newline at the end."""
    lines = ["stateDiagram-v2", f"    [*] --> {_T}: triggered"]
    lines += [f"    {one.before} --> {one.after}: {one.why}" for one in TRANSITIONS]
    lines += [f"    {status} --> [*]" for status in RunStatus if status.is_terminal]
    return "\n".join(lines) + "\n"

"""Steps of `doctor --platform` and `--mail`: each with a time limit, a result and a fix.

A failed step ends the steps of its part; then the next part is checked.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from datarecs_cli.error_text import fix_of
from datarecs_cli.invocation import UsageFault
from datarecs_core.errors.base import DatarecsError

STEP_LIMIT_S = 5.0
WHOLE_LIMIT_S = 30.0


class StepState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a step; no text contains a secret."""

    state: StepState = StepState.OK
    seen: str
    fix: str | None = None


def failed(seen: str, fix: str) -> Outcome:
    return Outcome(state=StepState.FAIL, seen=seen, fix=fix)


def warned(seen: str, fix: str) -> Outcome:
    return Outcome(state=StepState.WARN, seen=seen, fix=fix)


def skipped(seen: str, fix: str | None = None) -> Outcome:
    return Outcome(state=StepState.SKIPPED, seen=seen, fix=fix)


@dataclass(frozen=True, slots=True)
class CheckStep:
    part: str
    name: str
    check: Callable[[], Outcome]


def check_rows(steps: Iterable[CheckStep]) -> Iterator[Mapping[str, object]]:
    """Run the steps in order; one row of the table of `doctor` for each."""
    end = time.monotonic() + WHOLE_LIMIT_S
    broken: set[str] = set()
    for step in steps:
        left = min(STEP_LIMIT_S, end - time.monotonic())
        before = time.monotonic()
        if step.part in broken:
            outcome = skipped("an earlier step failed")
        elif left <= 0:
            outcome = skipped(
                f"not checked within {WHOLE_LIMIT_S:.0f} s",
                "correct the failed steps, then run it again",
            )
        else:
            outcome = _within(step, left)
        if outcome.state is StepState.FAIL:
            broken.add(step.part)
        yield {
            "source": step.part,
            "step": step.name,
            "state": outcome.state.value,
            "ms": round((time.monotonic() - before) * 1000),
            "seen": outcome.seen,
            "fix": outcome.fix,
        }


def _within(step: CheckStep, limit_s: float) -> Outcome:
    """Run the step on a thread, because a call that hangs in a driver cannot be interrupted."""
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(_outcome(step)), daemon=True)
    thread.start()
    thread.join(limit_s)
    if outcomes:
        return outcomes[0]
    return failed(f"no answer within {limit_s:.0f} s", "check that its address can be reached")


def _outcome(step: CheckStep) -> Outcome:
    try:
        return step.check()
    except DatarecsError as error:
        return failed(str(error), fix_of(error))
    except UsageFault as fault:
        return failed(str(fault), "correct what the message names")
    except (OSError, ValueError, RuntimeError) as error:
        return failed(f"{type(error).__name__}: {error}", "correct what the message names")
    except Exception as error:  # noqa: BLE001  the entry of a thread: a defect is a row, not a trace
        return failed(f"internal error: {type(error).__name__}", "report it with the command")

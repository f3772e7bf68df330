"""The shape of a Schedule: which job runs when, and what happens to missed times.

Rules of core make the final check. Fields of later releases are unknown here: they are refused,
never ignored.
"""

from collections.abc import Mapping

from datarecs_core.errors.faults import Fault, Path, Place
from datarecs_core.errors.spec import SpecCode
from datarecs_core.scheduling.schedule import Catchup, ConcurrencyPolicy, Schedule
from datarecs_core.scheduling.validation import (
    LEAST_INTERVAL,
    LEAST_LATENESS,
    MAX_CATCHUP,
    MAX_JITTER,
    MAX_WINDOW,
    schedule_faults,
)
from datarecs_specs.cron import MAX_CRON_CHARACTERS, cron_fault
from datarecs_specs.reading import Reading
from datarecs_specs.records import Field, Record
from datarecs_specs.shapes import FLAG, NAME_TEXT, Checked, Length, Text, Whole, Word, Zone
from datarecs_specs.time_shapes import MOMENT, START

_CRON = Checked(
    text=Text(most=MAX_CRON_CHARACTERS, normal=False),
    code=SpecCode.BAD_CRON,
    fault_of=lambda text, _: cron_fault(text),
    examples=("30 2 * * *", "*/15 8-18 * * MON-FRI", "@daily"),
)


def _check_times(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if "cron" not in values and "interval" not in values:
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, "cron"),
                message="'cron' or 'interval' is missing",
                place=Place.MISSING,
            )
        )
    if "cron" in values and "interval" in values:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE,
                path=(*at, "interval"),
                others=((*at, "cron"),),
                message="set exactly one of cron and interval",
                place=Place.KEY,
            )
        )


SCHEDULE = Record(
    title="spec of a Schedule",
    model=Schedule,
    check=_check_times,
    fields=(
        Field(name="job", shape=NAME_TEXT, doc="name of the job, in the schedule's namespace"),
        Field(
            name="cron",
            shape=_CRON,
            doc="when: minute, hour, day of month, month, day of week; or @hourly, @daily, "
            "@weekly, @monthly, @yearly",
        ),
        Field(
            name="interval",
            shape=Length(least=LEAST_INTERVAL),
            doc="instead of cron: time between runs, from start_at or the creation",
        ),
        Field(name="timezone", shape=Zone(), doc="time zone of cron"),
        Field(name="start_at", shape=START, doc="no run before"),
        Field(name="end_at", shape=MOMENT, doc="no run after"),
        Field(name="suspend", shape=FLAG, doc="true starts no runs until it is false again"),
        Field(
            name="concurrency_policy",
            shape=Word(words=ConcurrencyPolicy),
            doc="while a run of this schedule is not over: Allow one more, Forbid it, or Replace "
            "the running one",
        ),
        Field(
            name="catchup",
            shape=Word(words=Catchup),
            doc="which missed times still run: none, the latest, or all",
        ),
        Field(
            name="max_catchup",
            shape=Whole(least=1, most=MAX_CATCHUP),
            doc="with catchup all: at most this many, the newest",
        ),
        Field(
            name="catchup_window",
            shape=Length(least=LEAST_LATENESS, most=MAX_WINDOW),
            doc="missed times older than this do not run",
        ),
        Field(
            name="starting_deadline",
            shape=Length(least=LEAST_LATENESS, most=MAX_WINDOW),
            doc="a time that is later than this does not run",
        ),
        Field(
            name="jitter",
            shape=Length(most=MAX_JITTER),
            doc="spread starts over this long after the time, the same for a time always",
        ),
    ),
)


def schedule_meaning(spec: object, reading: Reading) -> None:
    """The rules of core over what could be read."""
    if isinstance(spec, Schedule):
        reading.faults.extend(schedule_faults(spec))

"""The shape of a NotificationRule: which runs are mailed to whom, and when.

A rule of core makes the final check. Fields of later releases are unknown here: they are refused,
never ignored.
"""

from datetime import timedelta

from datarecs_core.errors.spec import SpecCode
from datarecs_core.notifications.address import MAX_LENGTH, address_fault
from datarecs_core.notifications.rule import (
    MAX_CONSECUTIVE,
    MAX_JOBS,
    MAX_MUTES,
    MAX_PERIODS,
    MAX_RECIPIENTS,
    MAX_TIMES,
    OUTCOMES,
    Channel,
    Detail,
    Digest,
    Match,
    Mute,
    NotificationRule,
    Notify,
    QuietBehaviour,
    QuietHours,
    Recipient,
    rule_faults,
)
from datarecs_core.notifications.wall_clock import Period, Weekday
from datarecs_core.runs.model import RunMode
from datarecs_specs.envelope import LABEL_KEY, LABEL_VALUE, MAX_LABELS
from datarecs_specs.reading import Reading
from datarecs_specs.records import Field, ListOf, MapOf, Record
from datarecs_specs.shapes import (
    FLAG,
    NAME_TEXT,
    Checked,
    Length,
    Pattern,
    Text,
    Whole,
    Word,
    Zone,
)
from datarecs_specs.time_shapes import CLOCK, MOMENT

_DETAIL_CODE = Text(
    most=64,
    pattern=Pattern(
        regex=r"[A-Z][A-Z0-9_]{0,63}",
        words="a name of the error catalogue, such as COLUMN_NOT_FOUND",
        code=SpecCode.BAD_TEXT,
    ),
)
_DAYS = ListOf(item=Word(words=Weekday), least=1, most=len(Weekday))
_MUTE = Record(
    title="a mute",
    model=Mute,
    fields=(
        Field(
            name="jobs",
            shape=ListOf(item=NAME_TEXT, most=MAX_JOBS),
            doc="names of jobs, all by default",
        ),
        Field(name="until", shape=MOMENT, doc="when mails are sent again"),
        Field(name="reason", shape=Text(least=0, most=500), doc="why"),
    ),
)
_QUIET_HOURS = Record(
    title="quiet hours",
    model=QuietHours,
    fields=(
        Field(
            name="periods",
            shape=ListOf(
                item=Record(
                    title="a quiet period",
                    model=Period,
                    fields=(
                        Field(name="days", shape=_DAYS, doc="on which it starts, all by default"),
                        Field(name="from", shape=CLOCK, attribute="start", doc="first minute"),
                        Field(name="to", shape=CLOCK, attribute="end", doc="when mails are sent"),
                    ),
                ),
                least=1,
                most=MAX_PERIODS,
            ),
            doc="parts of the day; one may end on the next day",
        ),
        Field(name="timezone", shape=Zone(), doc="time zone of the periods"),
        Field(
            name="except",
            attribute="exceptions",
            shape=ListOf(item=Word(words=OUTCOMES), most=len(OUTCOMES)),
            doc="outcomes that are mailed at once",
        ),
        Field(
            name="behaviour",
            shape=Word(words=QuietBehaviour),
            doc="hold mails until the end, or skip them",
        ),
    ),
)
_DIGEST = Record(
    title="a digest",
    model=Digest,
    fields=(
        Field(
            name="at",
            shape=ListOf(item=CLOCK, least=1, most=MAX_TIMES),
            doc="times of day at which one mail is sent",
        ),
        Field(name="days", shape=_DAYS, doc="all by default"),
        Field(name="timezone", shape=Zone(), doc="time zone of the times"),
    ),
)
RULE = Record(
    title="spec of a NotificationRule",
    model=NotificationRule,
    fields=(
        Field(name="enabled", shape=FLAG, doc="false sends nothing"),
        Field(
            name="match",
            shape=Record(
                title="match",
                model=Match,
                fields=(
                    Field(
                        name="jobs",
                        shape=ListOf(item=NAME_TEXT, most=MAX_JOBS),
                        doc="names of jobs, all by default",
                    ),
                    Field(
                        name="job_selector",
                        shape=MapOf(key=LABEL_KEY, value=LABEL_VALUE, most=MAX_LABELS),
                        doc="labels that a job must have",
                    ),
                    Field(
                        name="triggers",
                        shape=ListOf(item=Word(words=RunMode), most=len(RunMode)),
                        doc="how runs started, all by default",
                    ),
                    Field(
                        name="outcomes",
                        shape=ListOf(item=Word(words=OUTCOMES), least=1, most=len(OUTCOMES)),
                        doc="which ends are mailed",
                    ),
                    Field(
                        name="detail_codes",
                        shape=ListOf(item=_DETAIL_CODE, most=MAX_JOBS),
                        doc="finer causes of errors, all by default",
                    ),
                ),
            ),
            doc="which runs",
        ),
        Field(name="channel", shape=Word(words=Channel), doc="webhooks are endpoints, not rules"),
        Field(
            name="notify", shape=Word(words=Notify), doc="every run, or when the outcome changes"
        ),
        Field(name="recovery", shape=FLAG, doc="also mail MATCHED after a mailed other outcome"),
        Field(
            name="remind_after",
            shape=Length(most=timedelta(days=31)),
            doc="with on_change: mail the same outcome again after this time",
        ),
        Field(
            name="after_consecutive",
            shape=Whole(least=1, most=MAX_CONSECUTIVE),
            doc="runs in a row without a match before the first mail",
        ),
        Field(
            name="mutes",
            shape=ListOf(item=_MUTE, most=MAX_MUTES),
            doc="no mail until a moment",
        ),
        Field(name="quiet_hours", shape=_QUIET_HOURS, doc="when mails are held or left out"),
        Field(name="digest", shape=_DIGEST, doc="collect mails and send one at these times"),
        Field(
            name="to",
            shape=ListOf(
                item=Record(
                    title="a recipient",
                    model=Recipient,
                    fields=(
                        Field(
                            name="address",
                            shape=Checked(
                                text=Text(most=MAX_LENGTH, normal=False),
                                code=SpecCode.BAD_ADDRESS,
                                fault_of=lambda text, _: address_fault(text),
                                examples=("finops@example.com",),
                            ),
                            doc="mail address",
                        ),
                    ),
                ),
                least=1,
                most=MAX_RECIPIENTS,
            ),
            doc="who is mailed",
        ),
        Field(name="detail", shape=Word(words=Detail), doc="how much a mail contains"),
    ),
)


def rule_meaning(spec: object, reading: Reading) -> None:
    """The rules of core over a rule that has its shape."""
    if isinstance(spec, NotificationRule) and not reading.faults:
        reading.faults.extend(rule_faults(spec))

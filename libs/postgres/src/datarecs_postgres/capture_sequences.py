"""Number the events of captures: contiguous per root, in commit order.

The numbers have a table of their own, because an item is locked before its ancestors and a number
is taken last: a counter in the row of the root would be locked in the opposite order. The row of a
root stays locked until the transaction ends, so a later number is committed later.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, func
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.captures.items import CaptureJobId
from datarecs_core.values import aware
from datarecs_postgres.session import Session
from datarecs_postgres.tables.captures import CAPTURE_SEQUENCE

_FIRST = insert(CAPTURE_SEQUENCE).values(
    tenant_id=bindparam("tenant"),
    root_job_id=bindparam("root"),
    last_sequence=bindparam("count", type_=BigInteger),
)
_NUMBER = _FIRST.on_conflict_do_update(
    index_elements=["tenant_id", "root_job_id"],
    set_={
        "last_sequence": CAPTURE_SEQUENCE.c.last_sequence + _FIRST.excluded.last_sequence,
    },
).returning(CAPTURE_SEQUENCE.c.last_sequence, func.clock_timestamp().label("time"))


class CaptureNumbers(NamedTuple):
    """Numbers of one root, and the database clock when they were taken."""

    sequences: range
    time: datetime


def number_events(session: Session, root: CaptureJobId, count: int) -> CaptureNumbers:
    """Take the next `count` numbers of a root; its counter stays locked until the end."""
    parameters = {"tenant": session.tenant_id, "root": root, "count": count}
    row = session.answer(_NUMBER, parameters).fetchone()
    if row is None:
        raise TypeError("INSERT … RETURNING gave no row")
    last, time = row
    return CaptureNumbers(sequences=range(last - count + 1, last + 1), time=aware(time))

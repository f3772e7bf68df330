"""Strategy `narrow` in many tasks without Spark: they run one after the other in this process.

One task runs twice and is taken for lost the first time; what tasks tell meets in another order
than it was told. So many questions are cheap, and none hangs on luck.
"""

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_spark.kernel_work import KernelAnswer, KernelTask, kept_file
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.share_work import Told
from datarecs_spark.spreading import Exchange, Meeting, Step, spread_by, work_of

_MEETINGS = 2


def in_many_tasks(task: KernelTask, *, shares: int = 3, row_group: int = 7) -> KernelAnswer:
    """The answer of so many shares; kept rows lie where one task leaves them.

    Files get row groups of so many rows first, so that shares begin and end inside of them.
    """
    for source in task.sources:
        for file in source.files:
            rows = pq.read_table(file)
            pq.write_table(rows, file, row_group_size=row_group)
    try:
        found = spread_by(an_exchange(), work_of(task, shares), "stage")
    except NotNativeError as reason:
        return KernelAnswer(given_up=str(reason))
    folder = Path(task.directory)
    for index, files in enumerate(found.files):
        kept = pa.concat_tables([pq.read_table(folder / name) for name, _ in files])
        pq.write_table(kept, folder / kept_file(index))
    return found.answer


def an_exchange() -> Exchange:
    """Of one process; attempts are numbered."""
    attempts = map(str, count())

    def exchange(shares: int, step: Step, meeting: Meeting | None) -> Sequence[Told]:
        list(step(0, next(attempts)))
        told = [each for at in range(shares) for each in step(at, next(attempts))]
        if meeting is None:
            return told
        met = [
            [each for each in reversed(told) if each.at % _MEETINGS == place]
            for place in range(_MEETINGS)
        ]
        return [each for rows in met for each in meeting(rows, next(attempts))]

    return exchange

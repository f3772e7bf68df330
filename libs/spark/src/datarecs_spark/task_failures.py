"""Find the report of a task in a failure of Spark, which repeats its text."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from datarecs_kernel.layout import Layout
from datarecs_kernel.task_failures import raise_failure
from datarecs_spark.errors import messages_of

_MARKED = re.compile(r"datarecs:task-failure:([0-9a-f]+)")


@contextmanager
def translate_failures(layout: Layout) -> Iterator[None]:
    """Raise a failure of Spark as the failure that its task reported."""
    try:
        yield
    except Exception as failure:
        for message in messages_of(failure):
            marked = _MARKED.search(message)
            if marked is not None:
                raise_failure(json.loads(bytes.fromhex(marked[1])), layout)
        raise

"""What a task has said of a source, out of the failure of Spark that repeats it."""

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
    """Failures of Spark that a task has caused are raised as what it reported."""
    try:
        yield
    except Exception as failure:
        for message in messages_of(failure):
            marked = _MARKED.search(message)
            if marked is not None:
                raise_failure(json.loads(bytes.fromhex(marked[1])), layout)
        raise

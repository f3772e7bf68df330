"""Which of the files that tasks wrote come to count: those that finished tasks have named.

A task may run several times, and one that counts as lost may still be writing on an executor that
nobody reaches. So tasks write to a folder of attempts, and named files are moved out of it; what is
left or comes later is in no folder that anybody reads.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.refusals import ComparisonFailedError


def fresh(directory: Path) -> Path:
    """Empty; what an earlier attempt left is gone."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def attempts_of(directory: Path) -> Path:
    """Where tasks write what may come to stand in the directory."""
    return directory.with_name(f"{directory.name}.attempts")


def accepted(stage: str, names: Sequence[str], directory: Path) -> Path:
    """Bring the files that count to their directory, which holds nothing else.

    Raises:
        ComparisonFailedError: one of them is not there.
    """
    attempts = attempts_of(fresh(directory))
    for name in names:
        try:
            (attempts / name).rename(directory / name)
        except FileNotFoundError as cause:
            raise ComparisonFailedError(
                RunDetail.RESULT_STORE_FAILED,
                stage,
                f"{name} of a finished task is not in {attempts}; do all executors share it?",
            ) from cause
    shutil.rmtree(attempts, ignore_errors=True)
    return directory

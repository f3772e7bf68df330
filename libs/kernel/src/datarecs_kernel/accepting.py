"""Accept the files of finished tasks, by the names that these tasks returned.

A task may run several times, and a lost task may still write on an executor that is not reachable.
So tasks write to a folder of attempts, and the named files are moved out of it; other files stay in
a folder that is never read.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.refusals import ComparisonFailedError


def fresh(directory: Path) -> Path:
    """Create an empty directory; files of an earlier attempt are removed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def attempts_of(directory: Path) -> Path:
    """The folder where tasks write files before they are accepted."""
    return directory.with_name(f"{directory.name}.attempts")


def accepted(stage: str, names: Sequence[str], directory: Path) -> Path:
    """Move the accepted files to their directory, which contains only these.

    Raises:
        ComparisonFailedError: one of them does not exist.
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

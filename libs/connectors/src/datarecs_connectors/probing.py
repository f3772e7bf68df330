"""Connection tests as steps, each with its duration and, on failure, a hint."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import perf_counter

from datarecs_application.ports.comparing import ProbeStep
from datarecs_connectors.errors import SourceError
from datarecs_connectors.source_trees import SourceTree
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source


def steps(*acts: tuple[str, Callable[[], str]]) -> Sequence[ProbeStep]:
    """Run steps in order and stop at the first failure; each returns its result as text."""
    done: list[ProbeStep] = []
    for name, act in acts:
        began = perf_counter()
        try:
            detail, failure = act(), None
        except DatarecsError as error:
            detail, failure = str(error), error
        done.append(
            ProbeStep(
                name=name,
                ok=failure is None,
                duration=timedelta(seconds=perf_counter() - began),
                detail=detail,
                code=None if failure is None else failure.code.name,
                login_refused=isinstance(failure, SourceError) and failure.login_refused,
            )
        )
        if failure is not None:
            break
    return done


def probe_files(tree: SourceTree, source: Source | None) -> Sequence[ProbeStep]:
    """Check that the folder exists and that the source's files can be opened."""

    def files() -> str:
        names = tree.find(source.path or "*") if source else []
        for name in names:
            tree.open(name).close()
        return f"{len(names)} {'file' if len(names) == 1 else 'files'} can be read"

    return steps(("folder", tree.check_root), *((("files", files),) if source else ()))

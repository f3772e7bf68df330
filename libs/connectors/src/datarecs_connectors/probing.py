"""Connection tests as steps, each timed and told with what to do when it fails."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from time import perf_counter

from datarecs_application.ports.comparing import ProbeStep
from datarecs_connectors.file_tree import FileTree
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Source


def steps(*acts: tuple[str, Callable[[], str]]) -> Sequence[ProbeStep]:
    """Run acts in order and stop at the first that fails; each answers with the fact found."""
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
            )
        )
        if failure is not None:
            break
    return done


def probe_files(tree: FileTree, source: Source | None) -> Sequence[ProbeStep]:
    """The folder is there; the source's files are found and can be opened."""

    def folder() -> str:
        count = len(tree.find("*")) if not tree.any_path else 0
        return f"{count} files" if count else "the folder may be read"

    def files() -> str:
        names = tree.find(source.path or "*") if source else []
        for name in names:
            tree.open(name).close()
        return f"{len(names)} files can be read"

    return steps(("folder", folder), *((("files", files),) if source else ()))

"""Run functions at the same time, for tests of concurrent callers."""

import threading
from collections.abc import Callable, Sequence

Work = Callable[[], object]


def at_once(works: Sequence[Work]) -> None:
    """Run each on its own thread; the first error is raised here."""
    errors: list[BaseException] = []
    ready = threading.Barrier(len(works))

    def run(work: Work) -> None:
        ready.wait()
        try:
            work()
        except Exception as error:  # noqa: BLE001  carried to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]

"""Start an unchanged service after binding the hook; its argument is the service's package.

The only place that connects shipped code and kills. The worker's child becomes the small one of
this package, so that a case costs no Spark session; its settings and everything else are
production's.
"""

import importlib
import sys
from pathlib import Path

from datarecs_core import crashing
from datarecs_reconciliation_worker import wiring as worker
from datarecs_testing.crashes import killing

CHILD = "datarecs_testing.crashes.child"


def main() -> int:
    """The service's own exit code."""
    (module,) = sys.argv[1:]
    crashing.hook = killing.Killer(Path.cwd() / killing.FOLDER, module)
    worker.CHILD = CHILD
    code: int = importlib.import_module(f"{module}.__main__").main()
    return code


if __name__ == "__main__":
    sys.exit(main())

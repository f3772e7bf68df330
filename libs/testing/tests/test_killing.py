"""An order kills at its hit, once; without one nothing happens but a note."""

import subprocess
import sys
from pathlib import Path

from datarecs_core.crashing import CrashPoint
from datarecs_testing.crashes.killing import EXIT, Killer, Orders

PASSES = """
import sys
from pathlib import Path
from datarecs_core import crashing
from datarecs_testing.crashes.killing import Killer
crashing.hook = Killer(Path(sys.argv[1]), "service")
for number in range(3):
    print(number, flush=True)
    crashing.crash_point(crashing.CrashPoint.FINISH_IN_TX)
"""


def passed_thrice(folder: Path) -> tuple[int, list[str]]:
    """Exit code, and how far it came."""
    done = subprocess.run(
        [sys.executable, "-c", PASSES, str(folder)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.split()


def test_an_order_kills_at_its_hit_and_only_once(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    order = orders.place("service", CrashPoint.FINISH_IN_TX, hit=2)
    assert passed_thrice(tmp_path) == (EXIT, ["0", "1"])
    assert orders.obeyed(order)
    assert passed_thrice(tmp_path) == (0, ["0", "1", "2"])


def test_orders_for_other_places_and_processes_are_not_obeyed(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    written_orders = [
        orders.place("service", CrashPoint.FINISH_AFTER_COMMIT, hit=1),
        orders.place("other", CrashPoint.FINISH_IN_TX, hit=1),
    ]
    assert passed_thrice(tmp_path) == (0, ["0", "1", "2"])
    assert not any(orders.obeyed(one) for one in written_orders)


def test_every_place_that_is_passed_is_noted(tmp_path: Path) -> None:
    killer = Killer(tmp_path, "service")
    for _ in range(2):
        killer(CrashPoint.RELAY_AFTER_ACK)
        killer(CrashPoint.CHILD_STARTED)
    assert Orders(tmp_path).passed() == {
        ("service", CrashPoint.RELAY_AFTER_ACK),
        ("service", CrashPoint.CHILD_STARTED),
    }

"""The soak: many runs while everything is killed at random, in real time, then the ledger.

Unlike the matrix it uses no named places: kill -9 hits services, the worker's child, the broker and
the database at any time, also during recovery. One seed determines the kills; the timing depends on
the machine. Only at the end the leases of dead processes and the longest pauses are shortened,
because a mail with an unknown result waits ten minutes.
"""

import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

import psutil  # type: ignore[import-untyped]  # publishes no types

from datarecs_testing.crashes.child import ON_SPARK
from datarecs_testing.crashes.house import COMPLETED, STOPPED, House
from datarecs_testing.crashes.ledger import Verdict
from datarecs_testing.crashes.processes import ROLES, WORKER
from datarecs_testing.crashes.serving import Servers
from datarecs_testing.stack import MortalServer

CHILD, BROKER, DATABASE = "child", "broker", "database"
WEIGHTS: Mapping[str, int] = {**dict.fromkeys(ROLES, 4), CHILD: 4, BROKER: 1, DATABASE: 2}
"""Relative frequency of kills; the broker restarts slowly."""
BETWEEN_KILLS_S = (2.0, 8.0)
DOWN_S = (0.0, 6.0)
"""Time before a killed server is started again."""
TRIGGER_SHARE = 0.85
"""Share of the time in which runs are triggered; in the rest the kills go on."""
EVERY_SPARK, CANCELLED_SHARE = 20, 0.08
MAY_CRASH = COMPLETED | {"ERRORED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    runs: int
    minutes: float
    seed: int
    on_spark: bool
    """Whether every 20th run is compared by Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakReport:
    plan: SoakPlan
    verdict: Verdict
    kills: Mapping[str, int]
    exits: Mapping[str, int]
    """Exit codes of processes that ended by themselves, with the process; empty is well."""
    outcomes: Mapping[str, int]
    """Status, code and detail -> runs."""
    minutes: float
    """Duration until everything was at rest."""


@dataclass(slots=True)
class Soak:
    """One soak over its own house."""

    house: House
    servers: Servers
    plan: SoakPlan
    say: Callable[[str], None]
    kills: Counter[str] = field(default_factory=Counter)
    _chance: random.Random = field(init=False)
    _down_until: dict[str, float] = field(default_factory=dict)
    _next_kill: float = 0.0
    _cancels: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.plan.seed)  # noqa: S311  the course can be repeated
        self.house.up = self._up

    def run(self) -> SoakReport:
        """Trigger runs, kill, and check the ledger."""
        began = monotonic()
        self._storm(began)
        self.say("no more kills; waiting until everything is at rest")
        for server in (DATABASE, BROKER):
            self._process(server).restart()
        self._down_until.clear()
        self.house.moves_time = True
        verdict = self.house.settle(patience_s=300)
        return SoakReport(
            plan=self.plan,
            verdict=verdict,
            kills=dict(sorted(self.kills.items())),
            exits=self._exits(),
            outcomes=self._outcomes(),
            minutes=(monotonic() - began) / 60,
        )

    def _storm(self, began: float) -> None:
        span = self.plan.minutes * 60
        runs, last_report = 0, began
        self._next_kill = began + 5
        while (now := monotonic()) < began + span or runs < self.plan.runs:
            due = int((now - began) / (span * TRIGGER_SHARE) * self.plan.runs)
            if self._next_kill <= now < began + span:
                self._kill()
            elif runs < min(due, self.plan.runs):
                runs += 1
                self._trigger(runs)
            else:
                self._cancel_due()
                self.house.tend()
                self.house.rest()
            if now - last_report > 30:
                last_report = now
                self.say(f"{runs} runs triggered, {sum(self.kills.values())} kills")

    def _trigger(self, number: int) -> None:
        on_spark = self.plan.on_spark and number % EVERY_SPARK == 0
        job = ON_SPARK if on_spark else self._chance.choice(("same", "other"))
        cancelled = self._chance.random() < CANCELLED_SHARE
        run = self.house.trigger(job, ends=MAY_CRASH | STOPPED if cancelled else MAY_CRASH)
        if cancelled:
            self._cancels.append((monotonic() + self._chance.uniform(0, 3), run))

    def _cancel_due(self) -> None:
        for due, run in [one for one in self._cancels if one[0] <= monotonic()]:
            self._cancels.remove((due, run))
            self.house.cancel(run)

    def _kill(self) -> None:
        (victim,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        down, pause = self._chance.uniform(*DOWN_S), self._chance.uniform(*BETWEEN_KILLS_S)
        self._next_kill = monotonic() + pause
        if victim in self._down_until:
            return
        if victim in {BROKER, DATABASE}:
            self._process(victim).kill()
            self._down_until[victim] = monotonic() + down
        elif victim == CHILD:
            if not self._kill_child():
                return
        elif not self.house.kill(victim):
            return
        self.kills[victim] += 1

    def _kill_child(self) -> bool:
        """The newest program that the worker has started, with all that it started."""
        with suppress(psutil.NoSuchProcess, KeyError):
            for child in psutil.Process(self.house.pid(WORKER)).children():
                child.send_signal(signal.SIGKILL)
                return True
        return False

    def _up(self) -> bool:
        """Restart servers after their outage; return whether both run."""
        for server, until in list(self._down_until.items()):
            if monotonic() >= until:
                self._process(server).restart()
                del self._down_until[server]
        return not self._down_until

    def _process(self, server: str) -> MortalServer:
        process = self.servers.postgres.process if server == DATABASE else self.servers.broker.jvm
        assert process is not None, f"the {server} was not started by this test"
        return process

    def _exits(self) -> dict[str, int]:
        exits = Counter(
            f"{death.process} {death.exit_code}"
            for death in self.house.deaths
            if death.exit_code != -signal.SIGKILL
        )
        return dict(sorted(exits.items()))

    def _outcomes(self) -> dict[str, int]:
        rows = self.house.database.query(
            "SELECT concat_ws(' ', status, result, error_code, error_detail_code), count(*)"
            " FROM datarecs.run WHERE tenant_id = %s GROUP BY 1 ORDER BY 1",
            (self.house.tenant,),
        )
        return {str(outcome): int(count) for outcome, count in rows}

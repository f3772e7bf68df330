"""The spec of a RetentionPolicy, typed: which objects are removed, and after how long."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from datarecs_core.resources.annotations import HOLD
from datarecs_core.resources.resource import Resource

LEAST_INTERVAL = timedelta(minutes=1)
LEAST_TTL = timedelta(days=7)
"""A service that was down for some days finds the runs of the events that it reads."""
MAX_TTL = timedelta(days=36_500)
MAX_NEWEST = 1000


class Target(StrEnum):
    """What is removed, in this order."""

    RUNS = "runs"
    """With their artefacts and history."""
    DIFFERENCES = "differences"
    """The stored differences of runs; run, counts and report stay."""
    MAILS = "mails"
    """Mails that were sent, failed or skipped, with their attempts."""
    TICKS = "ticks"
    """What became of the times of schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """How long something is kept."""

    ttl: timedelta
    """From the end of a run; from the creation of a mail or tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLifetime(Lifetime):
    """The same for what belongs to runs."""

    keep_last: int = 0
    """This many of the newest runs of each job keep it, whatever their age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """A target that is None is kept."""

    runs: RunLifetime | None = None
    differences: RunLifetime | None = None
    mails: Lifetime | None = None
    ticks: Lifetime | None = None

    def of(self, target: Target) -> Lifetime | None:
        lifetime: Lifetime | None = getattr(self, target.value)
        return lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    targets: Targets
    job_labels: Mapping[str, str] = field(default_factory=dict)
    """A job in the policy's namespace is selected if it has all of these labels."""
    deleted_jobs: bool = False
    """Also what belongs to jobs that no longer exist, of every namespace."""
    sweep_interval: timedelta = timedelta(hours=1)
    """From the end of a sweep to the next one."""
    dry_run: bool = False
    """Count, and remove nothing."""

    def first_target(self) -> Target | None:
        return next(iter(self._used()), None)

    def target_after(self, target: Target) -> Target | None:
        """The next one to sweep; None at the end."""
        used = list(self._used())
        later = list(Target)[list(Target).index(target) + 1 :]
        return next((one for one in later if one in used), None)

    def _used(self) -> Iterator[Target]:
        return (one for one in Target if self.targets.of(one) is not None)


def is_held(job: Resource) -> bool:
    """Whether its annotation keeps everything of the job."""
    return job.annotations.get(HOLD) == "true"

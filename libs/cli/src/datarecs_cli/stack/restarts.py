"""When an ended part starts again, and how often it may end."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A part that ended and will be started again."""

    part: str
    number: int
    """1 for the first since `up`."""
    exit_code: int
    """Exit code of the ended process; negative for a signal."""
    pause_s: float
    """Seconds until it is started."""

    @property
    def words(self) -> str:
        how = f"exit code {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"
        return f"{self.part} ended with {how}; restart {self.number} in {self.pause_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    first_s: float = 1.0
    longest_s: float = 30.0
    deaths: int = 5
    within_s: float = 60.0
    """This many ends within this time stop the platform."""

    def pause_s(self, deaths: Sequence[float]) -> float | None:
        """Seconds to wait after the last of these ends; None if there are too many.

        Args:
            deaths: monotonic times in order; at least one. A part that lived longer than
                `within_s` starts again at the first pause.
        """
        last = deaths[-1]
        if sum(moment > last - self.within_s for moment in deaths) >= self.deaths:
            return None
        in_a_row = 1
        for earlier, later in zip(deaths[-2::-1], deaths[::-1], strict=False):
            if later - earlier > self.within_s:
                break
            in_a_row += 1
        return min(self.first_s * 2.0 ** (in_a_row - 1), self.longest_s)

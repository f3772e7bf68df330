"""Token buckets: the rate limit of one name.

A separate module because requests, writes, new keys and failed sign-ins are all limited by this
rule. Counted per replica in memory by the monotonic clock (spec security 15).
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from datarecs_application.ports.outside import Clock

MAX_REMEMBERED = 10_000
"""Names of one family; beyond that the one that was silent longest is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """This number in a window, which is the burst as well."""

    quota: int
    window_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a bucket holds after a question."""

    remaining: int
    """Whole tokens left."""
    wait_s: int
    """Seconds until the next token, rounded up; 0 when the token was taken."""

    @property
    def is_taken(self) -> bool:
        return self.wait_s == 0


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """One bucket per name, filled evenly over the window. Safe from several threads."""

    def __init__(self, clock: Clock, rate: Rate) -> None:
        self.rate = rate
        self._clock = clock
        self._per_s = rate.quota / rate.window_s
        self._lock = Lock()
        self._buckets: OrderedDict[object, _Bucket] = OrderedDict()

    def take(self, name: object) -> Level:
        """Take one token, if there is one; an empty bucket is left as it is."""
        now = self._clock.monotonic()
        with self._lock:
            bucket = self._filled(name, now)
            if bucket.tokens < 1:
                return Level(remaining=0, wait_s=math.ceil((1 - bucket.tokens) / self._per_s))
            bucket.tokens -= 1
            return Level(remaining=int(bucket.tokens), wait_s=0)

    def _filled(self, name: object, now: float) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(float(self.rate.quota), now)
            if len(self._buckets) > MAX_REMEMBERED:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(name)
        grown = bucket.tokens + (now - bucket.filled_at) * self._per_s
        bucket.tokens, bucket.filled_at = min(float(self.rate.quota), grown), now
        return bucket

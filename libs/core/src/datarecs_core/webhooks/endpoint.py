"""The declared WebhookEndpoint and what makes one well formed.

A receiver's URL with filter, secrets, limits and retry schedule. Separate from the rules that use
it, so that YAML, REST and the stored row decode into one shape.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.faults import Fault, Step
from datarecs_core.errors.spec import SpecCode
from datarecs_core.notifications.address import address_fault, recipient_key
from datarecs_core.runs.model import RunResult
from datarecs_core.webhooks.dialects import MAX_DEPTH, MAX_NODES, Expression
from datarecs_core.webhooks.globs import FAMILY_PREFIX, glob_fault, glob_matches

MAX_GLOBS = 50
MAX_HEADERS = 20
MAX_SECRET_REFS = 4
MAX_DELAYS = 20
MAX_JOBS = 200
MAX_ALERT_EMAILS = 10
DRAIN = "datarecs.io/webhook-drain"
"""Finalizer of a deleted endpoint, until its open deliveries have ended."""

DEFAULT_DELAYS = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""Waits after each failed attempt before jitter: with the first attempt 10 over 272,105 s."""


class Format(StrEnum):
    """How an event becomes a request body."""

    STRUCTURED = "cloudevents-structured"
    BINARY = "cloudevents-binary"
    STANDARD = "standard"


class SigningMode(StrEnum):
    MANAGED = "managed"
    """The platform generates the secret and stores it sealed."""
    REFERENCE = "reference"


class Validation(StrEnum):
    """Whether the receiver must consent before anything is sent."""

    NONE = "none"
    HANDSHAKE = "handshake"
    """CloudEvents abuse protection: OPTIONS first, and nothing before the consent."""


class Ordering(StrEnum):
    NONE = "none"
    """In parallel, as fast as the limits allow."""
    RUN = "run"
    """Events of one run are sent one at a time, in the order of their numbers."""


class Coalesced(StrEnum):
    """Events of which a receiver needs only the newest of each run."""

    ROWS_PROCESSED = "run.rows_processed"
    """Progress: each event repeats the totals of the earlier ones."""

    @property
    def event_type(self) -> str:
        return f"{FAMILY_PREFIX}reconciliation.{self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """A value that is looked up at use: `env:NAME` or `file:/path`."""

    secret_ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFilter:
    """Which events of runs go to the endpoint, by their data; a missing field does not match."""

    jobs: tuple[str, ...] = ()
    """Names of reconciliation jobs; empty means all."""
    job_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels; the job must have all of them."""
    results: tuple[RunResult, ...] = ()
    """The results that pass, together with the errors of `error_codes`."""
    error_codes: tuple[RunErrorCode, ...] = ()

    @property
    def names_jobs(self) -> bool:
        """Whether matching needs the job of an event."""
        return bool(self.jobs or self.job_selector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which event types go to the endpoint; all parts must hold."""

    types: tuple[str, ...] = ("**",)
    """Globs over the type; `*` is one dot segment, `**` one or more; `io.datarecs.` may be left
    out."""
    exclude_types: tuple[str, ...] = ()
    """Globs that win over `types`."""
    dialects: tuple[Expression, ...] = ()
    """Filters over attributes; all must hold."""
    data: DataFilter | None = None
    operational: bool = False
    """Whether events about deliveries and tests of other endpoints are sent too."""

    def passes_type(self, event_type: str) -> bool:
        """Whether the globs pass the type."""
        wanted = any(glob_matches(glob, event_type) for glob in self.types)
        return wanted and not any(glob_matches(glob, event_type) for glob in self.exclude_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    mode: SigningMode = SigningMode.MANAGED
    secret_refs: tuple[str, ...] = ()
    """1 to 4 references, the first is current; only with `reference`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    bearer: SecretRef
    """Sent as `Authorization: Bearer …`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    delays: tuple[timedelta, ...] = DEFAULT_DELAYS
    """Up to 20 waits of 1 s to 1 day, together at most 7 days; none means one attempt."""
    max_age: timedelta = timedelta(days=7)
    """1 min to 7 days from the creation of a delivery; then it is dead-lettered as EXPIRED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoDisable:
    enabled: bool = True
    after: timedelta = timedelta(days=5)
    """1 to 30 days without a success, with at least ten failures in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    rate_per_minute: int = 600
    """1 to 6,000 attempts."""
    max_concurrent: int = 4
    """1 to 32 open requests, over all replicas."""
    max_pending: int = 100_000
    """1,000 to 1,000,000 waiting deliveries; then events get none until fewer than 80 % wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """Spec of the kind WebhookEndpoint."""

    url: str | None = None
    """Exactly one of `url` and `url_from`."""
    url_from: SecretRef | None = None
    """For URLs that are secrets themselves: only scheme, host and port are shown or logged."""
    enabled: bool = True
    filter: Filter = field(default_factory=Filter)
    format: Format = Format.STRUCTURED
    signing: Signing = field(default_factory=Signing)
    auth: Auth | None = None
    headers: Mapping[str, str | SecretRef] = field(default_factory=dict)
    validation: Validation = Validation.NONE
    timeout: timedelta = timedelta(seconds=15)
    """1 s to 30 s, over the whole attempt."""
    retry: Retry = field(default_factory=Retry)
    ordering: Ordering = Ordering.NONE
    max_block: timedelta | None = None
    """1 min to 1 day. With `ordering: run`, later events of a run pass an event that has failed for
    this long; None: they wait until its attempts end."""
    coalesce: tuple[Coalesced, ...] = ()
    """Of these events only the newest of each run is sent, if earlier ones still wait."""
    limits: Limits = field(default_factory=Limits)
    auto_disable: AutoDisable = field(default_factory=AutoDisable)
    """When an endpoint that fails without end is switched off."""
    alert_emails: tuple[str, ...] = ()
    """Up to 10 addresses that are mailed when it is disabled, fails for a day, works again or
    overflows; nobody where there is none."""


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1024}")
_RESERVED_NAMES = frozenset(
    {
        "host",
        "connection",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "authorization",
        "cookie",
        "user-agent",
        "accept-encoding",
        "traceparent",
        "tracestate",
    }
)
_RESERVED_PREFIXES = ("content-", "proxy-", "webhook-", "datarecs-", "ce-")


def coalesces(spec: WebhookEndpoint, event_type: str) -> bool:
    """Whether a newer event of this type replaces those of its run that still wait."""
    return any(one.event_type == event_type for one in spec.coalesce)


def endpoint_faults(spec: WebhookEndpoint) -> tuple[Fault, ...]:
    """All faults of the spec at once; the rules of URLs are in `egress`."""
    return (
        *_address_faults(spec),
        *_filter_faults(spec.filter),
        *_signing_faults(spec.signing),
        *_header_faults(spec.headers),
        *_limit_faults(spec),
        *_order_faults(spec),
        *_coalesce_faults(spec),
        *_retry_faults(spec.retry),
        *_alert_faults(spec.alert_emails),
    )


def _fault(code: SpecCode, message: str, *steps: Step) -> Fault:
    return Fault(code=code, path=("spec", *steps), message=message)


def _address_faults(spec: WebhookEndpoint) -> Iterator[Fault]:
    if (spec.url is None) == (spec.url_from is None):
        yield _fault(SpecCode.MISSING_FIELD, "give exactly one of url and url_from", "url")


def _filter_faults(chosen: Filter) -> Iterator[Fault]:
    for name, globs in (("types", chosen.types), ("exclude_types", chosen.exclude_types)):
        if len(globs) > MAX_GLOBS:
            message = f"{len(globs)} globs; at most {MAX_GLOBS}"
            yield _fault(SpecCode.BAD_LENGTH, message, "filter", name)
        for index, glob in enumerate(globs):
            if problem := glob_fault(glob):
                yield _fault(SpecCode.BAD_TEXT, problem, "filter", name, index)
    if not chosen.types:
        message = "an empty list matches nothing; leave it out for every type"
        yield _fault(SpecCode.BAD_LENGTH, message, "filter", "types")
    yield from _dialect_faults(chosen.dialects)
    if chosen.data == DataFilter():
        message = "an empty filter passes every event; remove it"
        yield _fault(SpecCode.WITHOUT_EFFECT, message, "filter", "data")


def _dialect_faults(dialects: tuple[Expression, ...]) -> Iterator[Fault]:
    for index, expression in enumerate(dialects):
        if expression.depth > MAX_DEPTH:
            message = f"{expression.depth} levels of expressions; at most {MAX_DEPTH}"
            yield _fault(SpecCode.BAD_LENGTH, message, "filter", "dialects", index)
    nodes = sum(expression.nodes for expression in dialects)
    if nodes > MAX_NODES:
        message = f"{nodes} expressions; at most {MAX_NODES}"
        yield _fault(SpecCode.BAD_LENGTH, message, "filter", "dialects")


def _signing_faults(signing: Signing) -> Iterator[Fault]:
    where = ("signing", "secret_refs")
    refs = signing.secret_refs
    if signing.mode is SigningMode.MANAGED and refs:
        yield _fault(SpecCode.FIELD_OF_ANOTHER_KIND, "only with mode reference", *where)
    if signing.mode is SigningMode.REFERENCE and not 1 <= len(refs) <= MAX_SECRET_REFS:
        message = f"1 to {MAX_SECRET_REFS} references, current first"
        yield _fault(SpecCode.BAD_LENGTH, message, *where)


def _header_faults(headers: Mapping[str, str | SecretRef]) -> Iterator[Fault]:
    if len(headers) > MAX_HEADERS:
        message = f"{len(headers)} headers; at most {MAX_HEADERS}"
        yield _fault(SpecCode.BAD_LENGTH, message, "headers")
    for name, value in headers.items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            message = "a header name has 1 to 64 token characters"
            yield _fault(SpecCode.BAD_NAME, message, "headers", name)
        elif lower in _RESERVED_NAMES or lower.startswith(_RESERVED_PREFIXES):
            message = "this header is set by the platform; choose another name"
            yield _fault(SpecCode.BAD_NAME, message, "headers", name)
        if isinstance(value, str) and not _HEADER_VALUE.fullmatch(value):
            message = "a header value has at most 1,024 visible ASCII characters"
            yield _fault(SpecCode.BAD_TEXT, message, "headers", name)
    if len({name.lower() for name in headers}) < len(headers):
        yield _fault(SpecCode.DUPLICATE_NAME, "two names differ in case only", "headers")


def _limit_faults(spec: WebhookEndpoint) -> Iterator[Fault]:
    limits = spec.limits
    if not timedelta(days=1) <= spec.auto_disable.after <= timedelta(days=30):
        yield _fault(SpecCode.BAD_DURATION, "P1D to P30D", "auto_disable", "after")
    if not timedelta(seconds=1) <= spec.timeout <= timedelta(seconds=30):
        yield _fault(SpecCode.BAD_DURATION, "PT1S to PT30S", "timeout")
    for name, value, least, most in (
        ("rate_per_minute", limits.rate_per_minute, 1, 6_000),
        ("max_concurrent", limits.max_concurrent, 1, 32),
        ("max_pending", limits.max_pending, 1_000, 1_000_000),
    ):
        if not least <= value <= most:
            yield _fault(SpecCode.NOT_IN_ENUM, f"{least} to {most}", "limits", name)


def _order_faults(spec: WebhookEndpoint) -> Iterator[Fault]:
    if spec.max_block is None:
        return
    if spec.ordering is Ordering.NONE:
        message = "it has no effect without `ordering: run`; remove it"
        yield _fault(SpecCode.WITHOUT_EFFECT, message, "max_block")
    if not timedelta(minutes=1) <= spec.max_block <= timedelta(days=1):
        yield _fault(SpecCode.BAD_DURATION, "PT1M to P1D", "max_block")


def _coalesce_faults(spec: WebhookEndpoint) -> Iterator[Fault]:
    for index, one in enumerate(spec.coalesce):
        if not spec.filter.passes_type(one.event_type):
            message = "it has no effect, because the filter passes no event of this type; remove it"
            yield _fault(SpecCode.WITHOUT_EFFECT, message, "coalesce", index)


def _retry_faults(retry: Retry) -> Iterator[Fault]:
    if len(retry.delays) > MAX_DELAYS:
        message = f"{len(retry.delays)} delays; at most {MAX_DELAYS}"
        yield _fault(SpecCode.BAD_LENGTH, message, "retry", "delays")
    for index, delay in enumerate(retry.delays):
        if not timedelta(seconds=1) <= delay <= timedelta(days=1):
            yield _fault(SpecCode.BAD_DURATION, "PT1S to P1D", "retry", "delays", index)
    if sum(retry.delays, timedelta()) > timedelta(days=7):
        yield _fault(SpecCode.BAD_DURATION, "together at most P7D", "retry", "delays")
    if not timedelta(minutes=1) <= retry.max_age <= timedelta(days=7):
        yield _fault(SpecCode.BAD_DURATION, "PT1M to P7D", "retry", "max_age")


def _alert_faults(addresses: tuple[str, ...]) -> Iterator[Fault]:
    if len(addresses) > MAX_ALERT_EMAILS:
        message = f"{len(addresses)} addresses; at most {MAX_ALERT_EMAILS}"
        yield _fault(SpecCode.BAD_LENGTH, message, "alert_emails")
    seen: set[str] = set()
    for index, address in enumerate(addresses):
        if problem := address_fault(address):
            yield _fault(SpecCode.BAD_ADDRESS, problem, "alert_emails", index)
        elif recipient_key(address) in seen:
            message = "this address is named twice"
            yield _fault(SpecCode.DUPLICATE_NAME, message, "alert_emails", index)
        else:
            seen.add(recipient_key(address))

"""The shape of a WebhookEndpoint: which events are sent where, and how.

A rule of core makes the final check. Fields of later releases are unknown here: they are refused,
never ignored.
"""

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from datarecs_core.access.references import SecretPurpose, SecretUse, normal_host
from datarecs_core.errors.faults import Fault, Path, Place, usable
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue
from datarecs_core.notifications.address import MAX_LENGTH, address_fault
from datarecs_core.webhooks.endpoint import (
    MAX_ALERT_EMAILS,
    MAX_DELAYS,
    MAX_HEADERS,
    MAX_SECRET_REFS,
    Auth,
    AutoDisable,
    Coalesced,
    Format,
    Limits,
    Ordering,
    Retry,
    SecretRef,
    Signing,
    SigningMode,
    Validation,
    WebhookEndpoint,
    endpoint_faults,
)
from datarecs_specs.filter_shapes import FILTER
from datarecs_specs.nodes import MapNode, Node
from datarecs_specs.reading import JsonSchema, Reading
from datarecs_specs.records import Field, ListOf, MapOf, Record
from datarecs_specs.references import SECRET_REFERENCE, URL, check_uses
from datarecs_specs.shapes import FLAG, Checked, Length, Text, Whole, Word

_SECRET_REF = Record(
    title="a secret reference",
    model=SecretRef,
    fields=(Field(name="secret_ref", shape=SECRET_REFERENCE, doc="env:NAME or file:/path"),),
)
_ADDRESS = Checked(
    text=Text(most=MAX_LENGTH, normal=False),
    code=SpecCode.BAD_ADDRESS,
    fault_of=lambda text, _: address_fault(text),
    examples=("oncall@example.com",),
)


class _HeaderValue:
    """A header's value in clear, or a reference when it is a secret."""

    __slots__ = ()
    _clear = Text(least=0, most=1_024, normal=False)

    def read(self, node: Node, at: Path, reading: Reading) -> object:
        shape = _SECRET_REF if isinstance(node, MapNode) else self._clear
        return shape.read(node, at, reading)

    def write(self, value: object, *, minimal: bool) -> JsonValue:
        if isinstance(value, SecretRef):
            return _SECRET_REF.write(value, minimal=minimal)
        return str(value)

    def schema(self) -> JsonSchema:
        return {"anyOf": [self._clear.schema(), _SECRET_REF.schema()]}


def _check_secrets(fields: Mapping[str, object], at: Path, reading: Reading) -> None:
    """Each reference may go to the endpoint's host; that of `url_from` is known only at use."""
    url, url_from = fields.get("url"), fields.get("url_from")
    if isinstance(url_from, SecretRef):
        use = SecretUse(purpose=SecretPurpose.URL)
        check_uses(url_from.secret_ref, (use,), (*at, "url_from", "secret_ref"), reading)
    if not isinstance(url, str):
        return
    host = normal_host(urlsplit(url).hostname or "")
    sent = SecretUse(purpose=SecretPurpose.WEBHOOK, host=host)
    signing, auth, headers = (fields.get(name) for name in ("signing", "auth", "headers"))
    if isinstance(signing, Signing):
        use = SecretUse(purpose=SecretPurpose.SIGNING, host=host)
        for index, reference in usable(signing.secret_refs):
            check_uses(reference, (use,), (*at, "signing", "secret_refs", index), reading)
    if isinstance(auth, Auth):
        check_uses(auth.bearer.secret_ref, (sent,), (*at, "auth", "bearer", "secret_ref"), reading)
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, SecretRef):
            path = (*at, "headers", str(name), "secret_ref")
            check_uses(value.secret_ref, (sent,), path, reading)


_SECRET_HEADERS = frozenset({"x-api-key", "api-key", "x-auth-token", "x-token", "x-secret"})


def _check_endpoint(values: Mapping[str, object], at: Path, reading: Reading) -> None:
    if "url" not in values and "url_from" not in values:
        reading.fault(
            Fault(
                code=SpecCode.MISSING_FIELD,
                path=(*at, "url"),
                message="'url' is missing",
                place=Place.MISSING,
            )
        )
    if "url" in values and "url_from" in values:
        reading.fault(
            Fault(
                code=SpecCode.FIELD_GIVEN_TWICE,
                path=(*at, "url"),
                others=((*at, "url_from"),),
                message="give exactly one of url and url_from",
                place=Place.KEY,
            )
        )
    _check_secrets(values, at, reading)
    headers = values.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, str) and str(name).lower() in _SECRET_HEADERS:
            reading.fault(
                Fault(
                    code=SpecCode.INLINE_SECRET,
                    path=(*at, "headers", str(name)),
                    message="this header holds a secret",
                    hint="write {secret_ref: env:NAME}",
                )
            )


ENDPOINT = Record(
    title="spec of a WebhookEndpoint",
    model=WebhookEndpoint,
    check=_check_endpoint,
    fields=(
        Field(name="url", shape=URL, doc="where events are posted; https"),
        Field(name="url_from", shape=_SECRET_REF, doc="for a URL that is a secret itself"),
        Field(name="enabled", shape=FLAG, doc="whether events are sent; false stops deliveries"),
        Field(name="filter", shape=FILTER, doc="which events are sent"),
        Field(name="format", shape=Word(words=Format), doc="how an event becomes a body"),
        Field(
            name="signing",
            shape=Record(
                title="signing",
                model=Signing,
                misplaced={
                    "secret": (
                        SpecCode.INLINE_SECRET,
                        "the platform makes one and returns it once; or write secret_refs",
                    )
                },
                fields=(
                    Field(name="mode", shape=Word(words=SigningMode), doc="who stores the secret"),
                    Field(
                        name="secret_refs",
                        shape=ListOf(item=SECRET_REFERENCE, most=MAX_SECRET_REFS),
                        doc="references, current first; only with mode reference",
                    ),
                ),
            ),
            doc="how requests are signed",
        ),
        Field(
            name="auth",
            shape=Record(
                title="auth",
                model=Auth,
                fields=(Field(name="bearer", shape=_SECRET_REF, doc="Authorization: Bearer"),),
            ),
            doc="sent with every request",
        ),
        Field(
            name="headers",
            shape=MapOf(key=Text(most=64), value=_HeaderValue(), most=MAX_HEADERS),
            doc="further headers",
        ),
        Field(
            name="validation",
            shape=Word(words=Validation),
            doc="handshake: nothing is sent before the receiver answers OPTIONS with its consent",
        ),
        Field(
            name="timeout",
            shape=Length(least=timedelta(seconds=1), most=timedelta(seconds=30)),
            doc="of a whole attempt",
        ),
        Field(
            name="retry",
            shape=Record(
                title="retry",
                model=Retry,
                fields=(
                    Field(
                        name="delays",
                        shape=ListOf(
                            item=Length(least=timedelta(seconds=1), most=timedelta(days=1)),
                            most=MAX_DELAYS,
                        ),
                        doc="waits after failed attempts, before jitter; together at most P7D",
                    ),
                    Field(
                        name="max_age",
                        shape=Length(least=timedelta(minutes=1), most=timedelta(days=7)),
                        doc="after this a delivery is given up",
                    ),
                ),
            ),
            doc="when a failed delivery is tried again",
        ),
        Field(
            name="ordering",
            shape=Word(words=Ordering),
            doc="run: events of one run are sent one at a time and in order",
        ),
        Field(
            name="max_block",
            shape=Length(least=timedelta(minutes=1), most=timedelta(days=1)),
            doc="with ordering: run, the time after which later events pass a failing event",
        ),
        Field(
            name="coalesce",
            shape=ListOf(item=Word(words=Coalesced), most=len(Coalesced)),
            doc="events of which only the newest of a run is sent, if earlier ones still wait",
        ),
        Field(
            name="limits",
            shape=Record(
                title="limits",
                model=Limits,
                fields=(
                    Field(
                        name="rate_per_minute",
                        shape=Whole(least=1, most=6_000),
                        doc="attempts per minute",
                    ),
                    Field(
                        name="max_concurrent", shape=Whole(least=1, most=32), doc="open requests"
                    ),
                    Field(
                        name="max_pending",
                        shape=Whole(least=1_000, most=1_000_000),
                        doc="deliveries that may wait; above, events get none",
                    ),
                ),
            ),
            doc="limits of the receiver",
        ),
        Field(
            name="auto_disable",
            shape=Record(
                title="auto_disable",
                model=AutoDisable,
                fields=(
                    Field(name="enabled", shape=FLAG, doc="whether it is switched off at all"),
                    Field(
                        name="after",
                        shape=Length(least=timedelta(days=1), most=timedelta(days=30)),
                        doc="how long it may fail without a success",
                    ),
                ),
            ),
            doc="when an endpoint that keeps failing is switched off",
        ),
        Field(
            name="alert_emails",
            shape=ListOf(item=_ADDRESS, most=MAX_ALERT_EMAILS),
            doc="who is mailed when it fails, is disabled or overflows; nobody by default",
        ),
    ),
)


def endpoint_meaning(spec: object, reading: Reading) -> None:
    """The rules of core over an endpoint that has its shape."""
    if isinstance(spec, WebhookEndpoint) and not reading.faults:
        reading.faults.extend(endpoint_faults(spec))

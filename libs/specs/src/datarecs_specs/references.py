"""Places that hold a reference: secrets, URLs, hosts and folders, each checked by a rule of core.

Separate from the kinds because a Connection and a WebhookEndpoint refuse the same things, and
neither message may repeat what was written: it may be the secret itself.
"""

import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from datarecs_core.access.references import (
    MAX_REFERENCE_CHARACTERS,
    SecretUse,
    check_reference,
    check_use,
)
from datarecs_core.egress.urls import (
    HTTPS_PORT,
    MAX_URL_CHARACTERS,
    check_endpoint,
    check_url,
)
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.security import SecretRefusedError, UrlRefusedError
from datarecs_core.errors.spec import SpecCode
from datarecs_core.resources.connection import path_fault, split_broker
from datarecs_core.resources.object_urls import object_url_fault
from datarecs_specs.reading import Reading
from datarecs_specs.shapes import Checked, Text

_SCHEMES = ("env:", "file:")
ANY_PORT = 5432
"""A port every kind of source may have, so that only the host is judged."""


def _reference_problem(text: str, reading: Reading) -> str | None:
    rules = reading.surroundings.references
    if not text.startswith(_SCHEMES):
        return "not a reference; store the secret and write env:NAME or file:/path"
    if rules is None:
        return None
    try:
        check_reference(text, rules)
    except SecretRefusedError as refused:
        return str(refused)
    return None


def check_uses(reference: str, uses: Iterable[SecretUse], at: Path, reading: Reading) -> None:
    """Record where a reference may not be sent; nothing where the context has no bindings."""
    rules = reading.surroundings.references
    if rules is None:
        return
    for use in uses:
        try:
            is_bound = check_use(reference, use, rules)
        except SecretRefusedError as refused:
            reading.fault(
                Fault(code=SpecCode.SECRET_FOR_ANOTHER_USE, path=at, message=str(refused))
            )
            return
        if not is_bound:
            reading.fault(
                Fault(
                    code=SpecCode.SECRET_FOR_ANOTHER_USE,
                    path=at,
                    message=f"this secret is not bound to {use}",
                    hint="the profile `server` refuses it; see DATARECS_SECRETS__USES",
                    warning=True,
                )
            )


def _url_problem(text: str, reading: Reading) -> str | None:
    try:
        check_url(text, reading.surroundings.webhooks)
    except UrlRefusedError as refused:
        return str(refused)
    return None


def _host_problem(text: str, reading: Reading) -> str | None:
    try:
        check_endpoint(text, ANY_PORT, reading.surroundings.connections)
    except UrlRefusedError as refused:
        return str(refused)
    return None


def _broker_problem(text: str, reading: Reading) -> str | None:
    """Of a stored broker, the dial judges the port."""
    surroundings = reading.surroundings
    try:
        host, port = split_broker(text)
        check_endpoint(host, ANY_PORT if surroundings.is_stored else port, surroundings.connections)
    except ValueError as problem:
        return f"{problem}, such as broker-1.example.com:9093"
    except UrlRefusedError as refused:
        return str(refused)
    return None


def _catalog_problem(text: str, reading: Reading) -> str | None:
    rules = reading.surroundings.connections
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return "host or port cannot be read"
    if parts.scheme != "https" and not (parts.scheme == "http" and rules.local):
        return "the scheme must be https"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "user information, query and fragment are not allowed"
    try:
        check_endpoint(parts.hostname or "", _catalog_port(parts.scheme, port), rules)
    except UrlRefusedError as refused:
        return str(refused)
    return None


def _catalog_port(scheme: str, port: int | None) -> int:
    """Plain HTTP, for local catalogs only, is checked only by its host."""
    if port is not None:
        return port
    return HTTPS_PORT if scheme == "https" else ANY_PORT


def _root_problem(text: str, _reading: Reading) -> str | None:
    return path_fault(text, absolute=True)


def _object_url_problem(text: str, _reading: Reading) -> str | None:
    if any(sign in text for sign in "*?["):
        return "patterns belong into the path of a source"
    return object_url_fault(text)


def _certificate_problem(text: str, _reading: Reading) -> str | None:
    if "PRIVATE KEY" in text:
        return "this is a private key; write only the authority's certificates"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, TypeError, ValueError):  # of what is no ASCII: TypeError
        return "not certificates in PEM form"
    return None


MAX_CERTIFICATE_CHARACTERS = 65_536
CERTIFICATES = Checked(
    text=Text(most=MAX_CERTIFICATE_CHARACTERS, lines=True, normal=False),
    code=SpecCode.BAD_TEXT,
    fault_of=_certificate_problem,
)
SECRET_REFERENCE = Checked(
    text=Text(most=MAX_REFERENCE_CHARACTERS, normal=False),
    code=SpecCode.INLINE_SECRET,
    fault_of=_reference_problem,
    examples=("env:DATARECS_CONN_DEFAULT_LEDGER", "file:/run/secrets/ledger"),
)
URL = Checked(
    text=Text(most=MAX_URL_CHARACTERS, normal=False),
    code=SpecCode.BAD_URL,
    fault_of=_url_problem,
    examples=("https://erp.example.com/hooks/recon",),
)
HOST = Checked(
    text=Text(most=253),
    code=SpecCode.BAD_URL,
    fault_of=_host_problem,
    examples=("ledger.example.com",),
    fix="write the name or address of a server that this platform may reach",
)
BROKER = Checked(
    text=Text(most=260),
    code=SpecCode.BAD_URL,
    fault_of=_broker_problem,
    examples=("broker-1.example.com:9093",),
    fix="write `host:port` of a broker that this platform may reach, such as "
    "`broker-1.example.com:9093`; the port is 443 or 1024 to 65535",
)
CATALOG_URL = Checked(
    text=Text(most=MAX_URL_CHARACTERS, normal=False),
    code=SpecCode.BAD_URL,
    fault_of=_catalog_problem,
    examples=("https://catalog.example.com/iceberg",),
)
FOLDER = Checked(
    text=Text(most=1_024, normal=False),
    code=SpecCode.BAD_PATH,
    fault_of=_root_problem,
    examples=("data/exports",),
)
OBJECT_URL = Checked(
    text=Text(most=1_024, normal=False),
    code=SpecCode.BAD_URL,
    fault_of=_object_url_problem,
    examples=("s3://lake/exports", "gs://lake/exports", "az://lake/exports"),
    fix="write bucket and prefix, such as `s3://lake/exports`",
)

"""Open the objects of a source: with the connection's credentials alone, through the guard.

obstore takes unset settings from the environment, where a worker may have the identity of the
platform. So every setting of a connection is set explicitly, and one without credentials sends
unsigned requests. Only a path of `datarecs compare` without a connection uses the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from datarecs_connectors.errors import ConnectionFailedError, PathRefusedError
from datarecs_connectors.object_stores.bucket import Bucket, StoreAddress
from datarecs_connectors.object_stores.proxy import (
    OF_PLATFORM,
    READING,
    WRITING,
    GuardedProxy,
    RefusedError,
    Server,
    checked_address,
)
from datarecs_connectors.path_patterns import is_wild
from datarecs_core.egress.addresses import Policy, Profile
from datarecs_core.egress.urls import check_source_port
from datarecs_core.errors.security import UrlRefusedError
from datarecs_core.resources.connection import ObjectStoreConfig
from datarecs_core.resources.object_urls import (
    DEFAULT_REGION,
    ObjectUrl,
    StoreKind,
    store_config,
    store_credentials,
)
from datarecs_core.resources.store_servers import BucketAddress, endpoint_fault

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CLIENT = {"timeout": timedelta(minutes=2), "connect_timeout": timedelta(seconds=5)}
_RETRIES = {"max_retries": 3, "retry_timeout": timedelta(seconds=30)}
_GOOGLE_TOKENS = ("oauth2.googleapis.com", 443)
"""Exchanges the key of a service account for a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRules:
    """What the environment allows."""

    policy: Policy
    is_guarded: bool
    """False with a user's own rights."""
    platform_bucket: BucketAddress | None
    may_write: bool = False
    """True for the files of a sink's tables."""


def open_connected(
    source: str, config: ObjectStoreConfig, secrets: Mapping[str, str], rules: StoreRules
) -> Bucket:
    """The objects of a connection.

    Raises:
        ConnectionFailedError: the address is not allowed, or the credentials have another form.
        PathRefusedError: the bucket is the platform's.
    """
    url, endpoint = ObjectUrl.parse(config.url), config.server
    fault = endpoint_fault(url.kind, endpoint)
    if fault is not None:
        raise ConnectionFailedError(source, fault)
    platform = rules.platform_bucket
    if platform is not None and platform.is_named_by(url, endpoint):
        raise PathRefusedError(source, OF_PLATFORM)
    settings = _settings(source, url, config, secrets.get("credentials"))
    client: dict[str, Any] = {**_CLIENT, "allow_http": endpoint.startswith("http://")}
    if config.ca is not None:
        client["root_certificate"] = config.ca
    if not rules.is_guarded:
        store = _built(source, url, {**settings, "client_options": client})
        return Bucket(source, store, address=StoreAddress(url.bucket, endpoint))
    proxy = _proxy(source, url, endpoint, rules)
    client["proxy_url"] = proxy.url
    try:
        store = _built(source, url, {**settings, "client_options": client})
    except ConnectionFailedError:
        proxy.close()
        raise
    return Bucket(
        source,
        store,
        address=StoreAddress(url.bucket, endpoint),
        refusal=lambda: proxy.refusal,
        close=proxy.close,
    )


def open_ambient(source: str, path: str) -> tuple[ObjectUrl, Bucket]:
    """The folder before the first pattern of a path, with the user's environment.

    Raises:
        PathRefusedError: not an address of objects.
        ConnectionFailedError: the environment's settings cannot be used.
    """
    try:
        url = ObjectUrl.parse(path)
    except ValueError as refused:
        raise PathRefusedError(source, str(refused)) from None
    parts = url.prefix.split("/")
    fixed = next((at for at, part in enumerate(parts) if is_wild(part) or "=" in part), -1)
    root = ObjectUrl(kind=url.kind, bucket=url.bucket, prefix="/".join(parts[:fixed]))
    options = {"config": store_config(root), "client_options": {**_CLIENT, "allow_http": True}}
    store = _built(source, root, options)
    address = StoreAddress(root.bucket, "the server of your environment")
    return root, Bucket(source, store, address=address)


def _settings(
    source: str, url: ObjectUrl, config: ObjectStoreConfig, secret: str | None
) -> dict[str, Any]:
    """Every setting that selects a server or an identity."""
    region = (config.region or DEFAULT_REGION) if url.kind is StoreKind.S3 else None
    settings = store_config(url, endpoint=config.server, region=region)
    settings["skip_signature"] = "true" if secret is None else "false"
    if secret is None:
        return {"config": settings}
    try:
        parts = store_credentials(url.kind, secret)
    except ValueError as refused:
        raise ConnectionFailedError(source, str(refused)) from None
    if url.kind is StoreKind.GS:
        return {"config": {**settings, **parts}}
    # A provider comes before everything in the environment.
    return {"config": settings, "credential_provider": lambda: _credential(url.kind, parts)}


def _credential(kind: StoreKind, parts: Mapping[str, str]) -> dict[str, str | None]:
    if kind is StoreKind.S3:
        return {
            "access_key_id": parts["access_key_id"],
            "secret_access_key": parts["secret_access_key"],
            "token": parts.get("session_token"),
            "expires_at": None,
        }
    if "sas_key" in parts:
        return {"sas_token": parts["sas_key"], "expires_at": None}
    return {"access_key": parts["account_key"], "expires_at": None}


def _built(source: str, url: ObjectUrl, options: dict[str, Any]) -> "ObjectStore":
    options = {"prefix": url.prefix or None, "retry_config": _RETRIES, **options}
    try:
        match url.kind:
            case StoreKind.S3:
                return S3Store(**options)
            case StoreKind.GS:
                return GCSStore(**options)
            case StoreKind.AZ:
                return AzureStore(**options)
    except (BaseError, ValueError, TypeError):
        # The library's text may quote a setting.
        raise ConnectionFailedError(
            source, "the store cannot be opened; check endpoint, region and credentials"
        ) from None


def _proxy(source: str, url: ObjectUrl, endpoint: str, rules: StoreRules) -> GuardedProxy:
    """Started only if the server may be reached at all, so that a refusal is immediate."""
    parts, policy, platform = urlsplit(endpoint), rules.policy, rules.platform_bucket
    is_same_name = platform is not None and platform.shares_name(url, endpoint)
    closed_host = platform.host if platform is not None and is_same_name else None
    if parts.scheme != "https" and policy.profile is not Profile.LOCAL:
        raise ConnectionFailedError(source, "the endpoint of a store must be https")
    server: Server = ((parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme])
    try:
        if parts.port is not None:
            check_source_port(parts.port)
        checked_address(server, policy, closed_host)
    except (UrlRefusedError, RefusedError) as refused:
        raise ConnectionFailedError(source, str(refused)) from None
    tokens = (_GOOGLE_TOKENS,) if url.kind is StoreKind.GS else ()
    methods = WRITING if rules.may_write else READING
    return GuardedProxy(frozenset({server, *tokens}), policy, closed_host, methods)


_PORTS = {"https": 443, "http": 80}

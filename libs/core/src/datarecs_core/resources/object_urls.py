"""Addresses of objects: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.

A separate module because settings, connections and commands read the same texts. Names of objects
are used as they are written: nothing in them is decoded.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from urllib.parse import urlsplit

DEFAULT_REGION = "us-east-1"
_FORM = re.compile(r"(?P<kind>s3|gs|az)://(?P<bucket>[^/]*)(?:/(?P<prefix>.*))?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9$][a-z0-9._-]{1,220}[a-z0-9]")
_KEY_PARTS = range(2, 4)
"""Parts of the credentials of an S3 store."""


class StoreKind(StrEnum):
    S3 = "s3"
    GS = "gs"
    AZ = "az"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectUrl:
    kind: StoreKind
    bucket: str
    """Bucket; for Azure the container."""
    prefix: str = ""
    """Names below it, without slashes at both ends; empty is the whole bucket."""

    def __str__(self) -> str:
        return f"{self.kind}://{self.bucket}/{self.prefix}".rstrip("/")

    @classmethod
    def parse(cls, text: str) -> "ObjectUrl":
        """The parts of an address; `prefix` may contain `*`, `?` and `[`.

        Raises:
            ValueError: the broken rule, without the text.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            raise ValueError(
                "write s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
            )
        if not _BUCKET.fullmatch(form["bucket"]):
            raise ValueError(
                "a bucket has 3 or more characters: lower-case letters, digits, `.`, `_` and `-`; "
                "credentials are not part of the address"
            )
        prefix = (form["prefix"] or "").rstrip("/")
        if not prefix.isprintable():
            raise ValueError("a name has no line break or other invisible character")
        if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
            raise ValueError("a name has no empty part and no part `.` or `..`")
        return cls(kind=StoreKind(form["kind"]), bucket=form["bucket"], prefix=prefix)

    def below(self, other: "ObjectUrl") -> str | None:
        """The path of this address relative to another one; None if it is not below it."""
        if (self.kind, self.bucket) != (other.kind, other.bucket):
            return None
        if not other.prefix:
            return self.prefix
        inside = f"{self.prefix}/".startswith(f"{other.prefix}/")
        return self.prefix[len(other.prefix) + 1 :] if inside else None


def is_object_url(text: str) -> bool:
    """Whether a path names objects in a store, well formed or not."""
    return text.partition("://")[0] in set(StoreKind) and "://" in text


def object_url_fault(text: str) -> str | None:
    """What is wrong with an address, or None."""
    try:
        ObjectUrl.parse(text)
    except ValueError as refused:
        return str(refused)
    return None


def endpoint_of(url: ObjectUrl, endpoint: str | None, region: str | None) -> str:
    """The address of the server.

    Raises:
        ValueError: Azure without an endpoint, which contains the name of the account.
    """
    if endpoint is not None:
        return endpoint.rstrip("/")
    match url.kind:
        case StoreKind.S3:
            return f"https://s3.{region or DEFAULT_REGION}.amazonaws.com"
        case StoreKind.GS:
            return "https://storage.googleapis.com"
        case StoreKind.AZ:
            raise ValueError("az:// needs an endpoint, https://<account>.blob.core.windows.net")


def azure_account(endpoint: str) -> str:
    """The account in an endpoint: first label of the host, or the path of an emulator."""
    parts = urlsplit(endpoint)
    return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]


def store_credentials(kind: StoreKind, text: str) -> Mapping[str, str]:
    """The parts of a credential by their names in obstore.

    Raises:
        ValueError: the required form, without the text.
    """
    match kind:
        case StoreKind.S3:
            parts = text.split(":", 2)
            if len(parts) not in _KEY_PARTS or not all(parts):
                raise ValueError("credentials of s3:// are <access key id>:<secret access key>")
            names = ("access_key_id", "secret_access_key", "session_token")
            return dict(zip(names, parts, strict=False))
        case StoreKind.GS:
            if not text.startswith("{"):
                raise ValueError("credentials of gs:// are the JSON key of a service account")
            return {"service_account_key": text}
        case StoreKind.AZ:
            if "sig=" in text:
                return {"sas_key": text.removeprefix("?")}
            try:
                b64decode(text, validate=True)
            except ValueError:
                raise ValueError(
                    "credentials of az:// are the account key in base64, or a SAS token"
                ) from None
            return {"account_key": text}


def store_config(
    url: ObjectUrl,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    credentials: str | None = None,
) -> dict[str, str]:
    """The settings of a store by their names in obstore; unset ones come from the environment.

    Raises:
        ValueError: the form of the credentials, without their text.
    """
    secrets = {} if credentials is None else store_credentials(url.kind, credentials)
    match url.kind:
        case StoreKind.S3:
            # In the path, so that one host serves every bucket.
            named = {"bucket": url.bucket, "virtual_hosted_style_request": "false"}
            places = {"endpoint": endpoint, "region": region}
        case StoreKind.GS:
            named, places = {"bucket": url.bucket}, {"base_url": endpoint}
        case StoreKind.AZ:
            account = None if endpoint is None else azure_account(endpoint)
            named = {"container_name": url.bucket}
            places = {"endpoint": endpoint, "account_name": account}
        case never:
            assert_never(never)
    set_places = {name: value for name, value in places.items() if value is not None}
    return {**named, **set_places, **secrets}

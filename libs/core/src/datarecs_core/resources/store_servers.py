"""Servers of object stores: which addresses are refused, and which name the same bucket.

A server reads the bucket from the path or from the host of a request, so an address with either of
them leads to another bucket than its `url` says. The platform's own bucket must be recognised under
every name.
"""

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from datarecs_core.access.references import normal_host
from datarecs_core.resources.object_urls import ObjectUrl, StoreKind

_REGION = r"[a-z]{2,}(-[a-z]+)*-\d+"
_PROVIDERS = {
    "amazon": re.compile(r"(?:.+\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws|on\.aws)"),
    "google": re.compile(r"(?:.+\.)?(?:googleapis\.com|storage\.cloud\.google\.com)"),
    "azure": re.compile(
        r"(?:.+\.)?(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)"
        r"|storage\.azure\.net)"
    ),
}
_SERVERS = {
    "amazon": re.compile(
        rf"(?:s3|s3[.-]{_REGION}|s3(?:-fips)?\.dualstack\.{_REGION}|s3-fips\.{_REGION}"
        rf"|bucket\.vpce-[a-z0-9-]+\.s3\.{_REGION}\.vpce)\.amazonaws\.com(?:\.cn)?"
    ),
    "google": re.compile(
        r"storage\.googleapis\.com|storage\.[a-z0-9-]+\.rep\.googleapis\.com"
        r"|storage-[a-z0-9-]+\.p\.googleapis\.com"
    ),
}
"""Hosts of a provider that serve every bucket by its name in the path."""
_EXAMPLES = {
    "amazon": "https://s3.eu-central-1.amazonaws.com",
    "google": "https://storage.googleapis.com",
}
_ALIASES = ("-s3alias", "--ol-s3", ".mrap")
"""Ends of names at Amazon that stand for a bucket with another name."""
_EMULATOR = re.compile(r"/[a-z0-9]{3,24}/?")
_INVALID = re.compile(r"InvalidCertificate\(\s*(\w+)")
_CERTIFICATE_FAULTS = {
    "UnknownIssuer": "unknown certificate authority",
    "BadSignature": "unknown certificate authority",
    "Expired": "the certificate of the server has expired",
    "ExpiredContext": "the certificate of the server has expired",
    "NotValidForName": "the certificate of the server is for another host",
    "NotValidForNameContext": "the certificate of the server is for another host",
}
_NUMERIC = re.compile(r"localhost|[0-9.]+|.*:.*")


def endpoint_fault(kind: StoreKind, endpoint: str) -> str | None:
    """What is wrong with the address of a server, with the correction, or None.

    An emulator of Azure at a numeric address has its account as the path.
    """
    try:
        parts = urlsplit(endpoint)
        host = normal_host(parts.hostname or "")
    except ValueError:
        return "the endpoint is not a URL; write https://host:port"
    has_account = kind is StoreKind.AZ and _NUMERIC.fullmatch(host) is not None
    if parts.path not in {"", "/"} and not (has_account and _EMULATOR.fullmatch(parts.path)):
        return f"the endpoint has the path {parts.path}; {_write(parts)}, and folders in `url`"
    if "?" in endpoint or "#" in endpoint:
        return f"the endpoint has a query or fragment; {_write(parts)}"
    provider = _provider_of(host)
    servers = _SERVERS.get(provider or "")
    if servers is not None and not servers.fullmatch(host):
        example = _EXAMPLES[provider or ""]
        return (
            f"{host} does not serve every bucket by its path; write the address of the service, "
            f"such as {example}, and the bucket in `url`"
        )
    return None


def certificate_fault(text: str) -> str | None:
    """What obstore rejects about a certificate, from the text of its error, or None."""
    invalid = _INVALID.search(text)
    if invalid is None:
        return None
    return _CERTIFICATE_FAULTS.get(invalid[1], "the certificate of the server is not valid")


def _write(parts: SplitResult) -> str:
    return f"write {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _provider_of(host: str) -> str | None:
    return next((name for name, form in _PROVIDERS.items() if form.fullmatch(host)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAddress:
    """A bucket or container at its server; for the platform's own, which no source reads."""

    host: str | None
    """None: an account of Azure that only the environment names."""
    bucket: str

    @classmethod
    def of(cls, url: ObjectUrl, endpoint: str | None) -> "BucketAddress":
        host = None if endpoint is None else normal_host(urlsplit(endpoint).hostname or "")
        return cls(host=host, bucket=url.bucket)

    def is_named_by(self, url: ObjectUrl, endpoint: str) -> bool:
        """Whether an address leads to this bucket, or may lead to it by an alias of Amazon."""
        host = normal_host(urlsplit(endpoint).hostname or "")
        if not self._is_at(host):
            return False
        is_alias = _provider_of(host) == "amazon" and url.bucket.endswith(_ALIASES)
        return is_alias or self.shares_name(url, endpoint)

    def shares_name(self, url: ObjectUrl, endpoint: str) -> bool:
        """Whether a server could read the name of this bucket from an address."""
        parts = urlsplit(endpoint)
        labels = normal_host(parts.hostname or "").split(".")
        in_host = {".".join(labels[:end]) for end in range(1, len(labels) + 1)}
        return self.bucket in {url.bucket, *in_host, *parts.path.split("/")}

    def _is_at(self, host: str) -> bool:
        if self.host is None:
            return _provider_of(host) == "azure"
        return _server(host) == _server(self.host) or host.endswith(f".{self.host}")


def _server(host: str) -> str:
    """One text for every host of a server: all of a provider, or of an account of Azure."""
    provider = _provider_of(host)
    if provider == "azure":
        return f"azure {host.partition('.')[0].removesuffix('-secondary')}"
    return provider or host

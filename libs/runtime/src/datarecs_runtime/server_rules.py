"""The rules of profile `server` about settings (S1 to S17 of the page on hardening).

Separate from `settings`, because a service checks them when it starts, and `datarecs doctor
--security` without a start. A rule checks only sections that the service has. Rules about the
database are in `datarecs_postgres.server_checks`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from datarecs_core.egress.addresses import AddressClass, Policy, Profile, Purpose, judge
from datarecs_core.errors.process import InsecureStartError, RuleFault, SettingsError
from datarecs_runtime.api_sections import Api
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.certificates import certificate_fault
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.platform_addresses import addresses_of, database_clients
from datarecs_runtime.secrets import key_encryption_key
from datarecs_runtime.sections import (
    Database,
    Egress,
    Files,
    Kafka,
    KafkaSecurity,
    Links,
    Mail,
    Secrets,
    Section,
    Webhook,
)
from datarecs_runtime.settings import ServiceSettings, secret_file

KEK = "DATARECS_SECRETS__KEK"
DATA_FOLDER = ".datarecs"
"""Default name of the data directory of `datarecs up`."""
EXAMPLES = frozenset(
    {
        "admin",
        "changeme",
        "change-me",
        "datarecs",
        "default",
        "example",
        "kafka",
        "password",
        "postgres",
        "root",
        "secret",
        "test",
    }
)
"""Passwords of examples and of images."""
MOST_TRUSTED = 0.5
"""Share of the addresses of a family that no operator's proxies have."""
PUBLIC_V6 = IPv6Network("2000::/3")
FEWEST_CHARACTERS = 8
"""Different ones in a random key of 32 characters or more."""

T = TypeVar("T", bound=Section)
Faults = Iterator[RuleFault]


class Rule(NamedTuple):
    """A rule about settings; `check` yields what is wrong."""

    number: str
    name: str
    sections: tuple[type[Section], ...]
    """It applies to services with one of them; empty: to all."""
    check: Callable[["Checked"], Faults]

    def applies(self, checked: "Checked") -> bool:
        return not self.sections or any(map(checked.section, self.sections))


@dataclass(frozen=True, slots=True)
class Checked:
    """The settings of one service."""

    settings: ServiceSettings

    def section(self, kind: type[T]) -> T | None:
        values = (getattr(self.settings, name) for name in type(self.settings).model_fields)
        return next((value for value in values if isinstance(value, kind)), None)


def refuse_insecure_settings(settings: ServiceSettings) -> None:
    """Called once, before anything is built.

    Raises:
        InsecureStartError: with every fault of the settings; only in profile `server`.
    """
    faults = server_faults(settings) if settings.profile is Profile.SERVER else ()
    if faults:
        raise InsecureStartError(faults)


def server_faults(settings: ServiceSettings) -> tuple[RuleFault, ...]:
    """Every fault of the settings in profile `server`; names of hosts are resolved."""
    checked = Checked(settings)
    return tuple(fault for rule in RULES if rule.applies(checked) for fault in rule.check(checked))


def _encryption(checked: Checked) -> Faults:
    api = checked.section(Api)
    if api is None:
        return
    if api.tls_cert_file is None and not api.trusted_proxies:
        yield RuleFault(
            "S2",
            "the API has neither TLS nor a declared proxy, so keys would be sent unencrypted",
            "set DATARECS_API__TLS_CERT_FILE and __TLS_KEY_FILE, or the networks of the proxy in"
            " DATARECS_API__TRUSTED_PROXIES",
        )
    v4 = [one for one in api.trusted_proxies if isinstance(one, IPv4Network)]
    v6 = [one for one in api.trusted_proxies if isinstance(one, IPv6Network)]
    for networks, share in ((v4, _share_of_v4(v4)), (v6, _share_of_v6(v6))):
        if share >= MOST_TRUSTED:
            yield RuleFault(
                "S2",
                f"DATARECS_API__TRUSTED_PROXIES contains {', '.join(map(str, networks))}, so every"
                " client can choose its address",
                "name only the networks of the proxy",
            )
    if api.tls_cert_file is not None and api.tls_key_file is not None:
        fault = certificate_fault(api.tls_cert_file, api.tls_key_file, now=SystemClock().now())
        if fault is not None:
            yield RuleFault("S2", fault, "correct DATARECS_API__TLS_CERT_FILE and __TLS_KEY_FILE")


def _share_of_v4(networks: Sequence[IPv4Network]) -> float:
    return sum(2.0**-network.prefixlen for network in collapse_addresses(networks))


def _share_of_v6(networks: Sequence[IPv6Network]) -> float:
    """Of 2000::/3, which contains all public addresses."""
    public = [
        one if one.subnet_of(PUBLIC_V6) else PUBLIC_V6
        for one in networks
        if one.overlaps(PUBLIC_V6)
    ]
    whole = PUBLIC_V6.prefixlen
    return sum(2.0 ** (whole - network.prefixlen) for network in collapse_addresses(public))


def _base_url(checked: Checked) -> Faults:
    fix = "set it to the https address of the API, such as https://datarecs.example.com"
    url = checked.settings.base_url
    if url is None:
        yield RuleFault("S3", "DATARECS_BASE_URL is missing; all links start with it", fix)
        return
    try:
        parts = urlsplit(url)
        is_plain = not (parts.username or parts.query or parts.fragment)
        is_good = parts.scheme == "https" and bool(parts.hostname) and is_plain
    except ValueError:
        is_good = False
    if not is_good:
        yield RuleFault("S3", "DATARECS_BASE_URL is not the https address of a host", fix)


def _encryption_key(checked: Checked) -> Faults:
    secrets = checked.section(Secrets)
    if secrets is None:
        return
    fix = f"set {KEK}_FILE to a file with 32 random bytes in base64: openssl rand -base64 32"
    try:
        key = key_encryption_key(secrets)
    except SettingsError:
        yield RuleFault("S6", f"{KEK} is not base64 of 32 bytes", fix)
        return
    if key is None:
        yield RuleFault("S6", f"{KEK} is missing; stored secrets need it", fix)
    elif len(set(key)) == 1:
        yield RuleFault("S13", f"{KEK} is an example: all bytes are equal", fix)
    place = secret_file(KEK)
    if secrets.kek_id.startswith("local-") or (place is not None and _is_of_up(place)):
        yield RuleFault("S6", f"{KEK} is the key of `datarecs up` on one machine", fix)


def _is_of_up(path: Path) -> bool:
    folder = path.absolute().parent.parent
    return DATA_FOLDER in path.absolute().parts or (folder / "state.json").is_file()


def _broker(checked: Checked) -> Faults:
    kafka = checked.section(Kafka)
    if kafka is None or not kafka.bootstrap:
        return
    if kafka.protocol(Profile.SERVER) is not KafkaSecurity.SASL_SSL:
        yield RuleFault(
            "S7",
            "the connection to Kafka is not encrypted",
            "set DATARECS_KAFKA__SECURITY=SASL_SSL, and DATARECS_KAFKA__CA_FILE for a private"
            " authority",
        )


def _platform_addresses(checked: Checked) -> Faults:
    """A tenant must not reach servers of the platform as a source or a receiver."""
    egress, database = checked.section(Egress), checked.section(Database)
    if egress is None:
        return
    hosts = [client.host for client in database_clients(database) if client.host]
    kafka = checked.section(Kafka)
    brokers = kafka.bootstrap if kafka else ()
    hosts += [broker.rpartition(":")[0].strip("[]") for broker in brokers]
    hosts += _store_host(checked.section(Blob))
    for host in dict.fromkeys(hosts):
        for address in addresses_of(host):
            if any(judge(address, policy).allowed for policy in _policies(egress)):
                yield RuleFault(
                    "S8",
                    f"{host} of the platform has the address {address}, which a source could name",
                    "add its network to DATARECS_EGRESS__DENIED_CIDRS",
                )


def _store_host(blob: Blob | None) -> list[str]:
    """Of a store of the operator; at a provider, sources share the public addresses with it."""
    host = urlsplit(blob.endpoint).hostname if blob and blob.endpoint else None
    if host is None:
        return []
    classes = (
        judge(address, Policy(purpose=Purpose.CONNECTION)).address_class
        for address in addresses_of(host)
    )
    return [] if AddressClass.GLOBAL in classes else [host]


def _policies(egress: Egress) -> Iterator[Policy]:
    for purpose in Purpose:
        yield Policy(
            purpose=purpose,
            allowed_cidrs=getattr(egress.allowed_cidrs, purpose.value),
            denied_cidrs=egress.denied_cidrs,
            nat64_prefixes=egress.nat64_prefixes,
        )


def _file_roots(checked: Checked) -> Faults:
    files = checked.section(Files)
    for root in files.roots if files else ():
        if os.access(root, os.W_OK):
            yield RuleFault(
                "S9",
                f"{root} of DATARECS_FILES__ROOTS can be written by this service",
                "mount it read-only",
            )


def _side_port(checked: Checked) -> Faults:
    host = checked.settings.side.host
    try:
        address = ip_address(host)
    except ValueError:
        return
    public = judge(address, Policy(purpose=Purpose.WEBHOOK)).address_class is AddressClass.GLOBAL
    if public:
        yield RuleFault(
            "S12",
            f"DATARECS_SIDE__HOST is the public address {host}; metrics need no login",
            "set a private address; in a container 0.0.0.0, without publishing the port",
        )


def _passwords(checked: Checked) -> Faults:
    for name, value in _secret_values(checked):
        if value.lower() in EXAMPLES:
            yield RuleFault("S13", f"{name} is a password of examples", "set a random password")
    links, secrets = checked.section(Links), checked.section(Secrets)
    keks = {getattr(secrets, name, None) for name in ("kek", "previous_kek")} - {None}
    for name in ("key", "previous_key"):
        secret = getattr(links, name, None)
        if secret is not None and secret in keks:
            yield RuleFault(
                "S13",
                f"DATARECS_LINKS__{name.upper()} equals the key-encryption key",
                "set a key of its own: openssl rand -hex 32",
            )
        if secret is not None and len(set(secret.get_secret_value())) < FEWEST_CHARACTERS:
            yield RuleFault(
                "S13",
                f"DATARECS_LINKS__{name.upper()} is not random",
                "set 32 random characters: openssl rand -hex 32",
            )


def _secret_values(checked: Checked) -> Iterator[tuple[str, str]]:
    for client in database_clients(checked.section(Database)):
        yield f"the password in {client.setting}", client.password
    kafka, mail = checked.section(Kafka), checked.section(Mail)
    if kafka is not None:
        yield "DATARECS_KAFKA__PASSWORD", kafka.password.get_secret_value()
        yield "DATARECS_KAFKA__RELAY__PASSWORD", kafka.relay.password.get_secret_value()
    if mail is not None and mail.password is not None:
        yield "DATARECS_MAIL__PASSWORD", mail.password.get_secret_value()


def _verified_database(checked: Checked) -> Faults:
    reported: set[str] = set()
    for client in database_clients(checked.section(Database)):
        if client.is_remote and not client.is_verified and client.setting not in reported:
            reported.add(client.setting)
            yield RuleFault(
                "S14",
                f"{client.setting} does not check the certificate of {client.host}",
                "add ?sslmode=verify-full&sslrootcert=FILE to the URL",
            )


RULES: Sequence[Rule] = (
    Rule("S2", "encryption of the API", (Api,), _encryption),
    Rule("S3", "base URL", (Api, Mail, Webhook), _base_url),
    Rule("S6", "key-encryption key", (Secrets,), _encryption_key),
    Rule("S7", "encryption of the broker", (Kafka,), _broker),
    Rule("S8", "addresses of the platform", (Egress,), _platform_addresses),
    Rule("S9", "folders of files", (Files,), _file_roots),
    Rule("S12", "side port", (), _side_port),
    Rule("S13", "passwords", (), _passwords),
    Rule("S14", "certificate of the database", (Database,), _verified_database),
)
"""Without a setting: S1 (every route needs a key), S10 (no CORS), S11 (no Spark UI)."""

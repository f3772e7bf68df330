"""Connections, endpoints and rules: no secret in clear, no URL inside, nothing of later on."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from datarecs_core.access.references import ReferenceRules, parse_use
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import UrlRules
from datarecs_core.errors.spec import SpecCode
from datarecs_core.notifications.rule import NotificationRule, Notify
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    HadoopCatalog,
    IcebergConfig,
    ObjectStoreConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
    SslMode,
    Transport,
)
from datarecs_core.resources.resource import Kind
from datarecs_core.webhooks.endpoint import SecretRef, WebhookEndpoint
from datarecs_specs.documents import Decoded, decode_json, decode_stored
from datarecs_specs.kinds import canonical_spec
from datarecs_specs.reading import Surroundings

SERVER = Surroundings(
    webhooks=UrlRules(policy=Policy(purpose=Purpose.WEBHOOK, profile=Profile.SERVER)),
    connections=UrlRules(policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)),
    references=ReferenceRules(
        env_prefix="DATARECS_CONN_A_",
        file_root="/secrets/a",
        uses={
            f"env:DATARECS_CONN_A_{name}": frozenset(map(parse_use, uses))
            for name, uses in {
                "LEDGER": ("postgres:db.example.com",),
                "CATALOG": ("iceberg:catalog.example.com",),
                "STORE": ("object-store:minio.example.com",),
                "KEY": ("webhook:erp.example.com",),
                "SIGN": ("signing:erp.example.com",),
                "U": ("url",),
            }.items()
        },
    ),
)
CONFIG = {"host": "db.example.com", "database": "ledger", "user": "recon"}
URL = "https://erp.example.com/hook"
TO = [{"address": "finops@example.com"}]


def decoded(kind: str, spec: object, around: Surroundings = SERVER) -> Decoded:
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": spec,
    }
    return decode_json(body, surroundings=around)


def faults_of(kind: str, spec: object) -> list[str]:
    faults = decoded(kind, spec).faults
    return [f"{one.code.docs_id} {one.pointer.removeprefix('/spec')}" for one in faults]


def test_a_connection_is_read() -> None:
    spec = {
        "type": "postgres",
        "config": CONFIG,
        "auth": {"password": "env:DATARECS_CONN_A_LEDGER"},
    }
    _, read = decoded("Connection", spec).require()
    assert read == Connection(
        type="postgres",  # type: ignore[arg-type]  # a StrEnum equals its text
        config=PostgresConfig(host="db.example.com", database="ledger", user="recon"),
        auth={"password": "env:DATARECS_CONN_A_LEDGER"},
    )


def test_a_connection_of_an_object_store_is_read() -> None:
    spec = {
        "type": "object_store",
        "config": {**STORE, "region": "eu-central-1"},
        "auth": {"credentials": "env:DATARECS_CONN_A_STORE"},
    }
    _, read = decoded("Connection", spec).require()
    assert isinstance(read, Connection)
    assert read.config == ObjectStoreConfig(
        url="s3://lake/exports", endpoint="https://minio.example.com:9000", region="eu-central-1"
    )
    assert read.auth == {"credentials": "env:DATARECS_CONN_A_STORE"}


def test_the_server_is_verified_by_default() -> None:
    _, read = decoded("Connection", {"type": "postgres", "config": CONFIG}).require()
    assert isinstance(read, Connection)
    assert isinstance(read.config, PostgresConfig)
    assert read.config.sslmode is SslMode.VERIFY_FULL


@pytest.mark.case("X50")
@pytest.mark.parametrize("port", [1, 22, 80, 1023, 2375, 2376, 2379, 2380, 6443, 10250, 10255])
@pytest.mark.parametrize("place", ["", "/catalog/postgres"])
def test_ports_of_systems_and_clusters_are_refused_when_a_connection_is_written(
    port: int, place: str
) -> None:
    server = {**CONFIG, "port": port}
    spec: dict[str, object] = {"type": "postgres", "config": server}
    if place:
        catalog = {"type": "sql", "name": "lake", "postgres": server}
        spec = {"type": "iceberg", "config": {"catalog": catalog}}
    assert faults_of("Connection", spec) == [f"DR1017 /config{place}/port"]


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_a_remote_server_without_encryption_needs_the_words_that_accept_it(mode: str) -> None:
    config = {**CONFIG, "sslmode": mode}
    assert faults_of("Connection", {"type": "postgres", "config": config}) == [
        "DR1080 /config/sslmode"
    ]
    accepted = {**config, "transport": "unencrypted-accepted"}
    _, read = decoded("Connection", {"type": "postgres", "config": accepted}).require()
    assert isinstance(read, Connection)
    assert isinstance(read.config, PostgresConfig)
    assert read.config.transport is Transport.UNENCRYPTED_ACCEPTED


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "LOCALHOST."])
def test_on_the_loopback_no_encryption_is_needed(host: str) -> None:
    local = Surroundings(references=SERVER.references)
    spec = {"type": "postgres", "config": {**CONFIG, "host": host, "sslmode": "disable"}}
    body = {
        "apiVersion": "datarecs.io/v1",
        "kind": "Connection",
        "metadata": {"name": "x"},
        "spec": spec,
    }
    assert decode_json(body, surroundings=local).faults == ()


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_an_encrypting_mode_needs_no_further_words(mode: str) -> None:
    config = {**CONFIG, "sslmode": mode}
    assert faults_of("Connection", {"type": "postgres", "config": config}) == []


@pytest.mark.parametrize(
    "text",
    [
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n\u00e9\n-----END CERTIFICATE-----\n",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ],
)
def test_an_authority_is_written_as_certificates_and_nothing_else(text: str) -> None:
    config = {**CONFIG, "ca": text}
    decoded_connection = decoded("Connection", {"type": "postgres", "config": config})
    assert [one.pointer for one in decoded_connection.faults] == ["/spec/config/ca"]
    assert "AAAA" not in str([one.as_json() for one in decoded_connection.findings])


REST = RestCatalog(type=CatalogType.REST, uri="https://catalog.example.com/x", warehouse="prod")
SQL = SqlCatalog(
    type=CatalogType.SQL,
    name="lake",
    postgres=PostgresConfig(host="db.example.com", database="ledger", user="recon"),
)
HADOOP = HadoopCatalog(type=CatalogType.HADOOP, warehouse="lake")


@pytest.mark.parametrize(
    ("written", "catalog"),
    [
        ({"type": "rest", "uri": REST.uri, "warehouse": "prod"}, REST),
        ({"type": "sql", "name": "lake", "postgres": CONFIG}, SQL),
        ({"type": "hadoop", "warehouse": "lake"}, HADOOP),
    ],
)
def test_the_catalog_of_a_lake_is_read_and_written(
    written: dict[str, object], catalog: RestCatalog | SqlCatalog | HadoopCatalog
) -> None:
    spec = {"type": "iceberg", "config": {"catalog": written}}
    stored, read = decoded("Connection", spec).require()
    assert isinstance(read, Connection)
    assert read.config == IcebergConfig(catalog=catalog)
    assert decoded("Connection", stored.spec).require()[1] == read


@pytest.mark.case("R68")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"config": {**CONFIG, "password": "hunter2"}}, ["DR1019 /config/password"]),
        ({"config": CONFIG, "password": "hunter2"}, ["DR1019 /password"]),
        ({"config": CONFIG, "auth": {"password": "hunter2"}}, ["DR1019 /auth/password"]),
        (
            {"config": {**CONFIG, "dsn": "postgres://u:hunter2@h/d"}},
            ["DR1019 /config/dsn"],
        ),
    ],
)
def test_a_secret_in_clear_is_refused_and_never_repeated(
    spec: dict[str, object], expected: list[str]
) -> None:
    read = decoded("Connection", {"type": "postgres", **spec})
    assert faults_of("Connection", {"type": "postgres", **spec}) == expected
    assert "hunter2" not in str([one.as_json() for one in read.findings])


@pytest.mark.case("X65")
@pytest.mark.parametrize(
    "reference",
    [
        "env:DATARECS_KEK",
        "env:DATARECS_CONN_B_LEDGER",
        "file:/etc/shadow",
        "file:/secrets/a/../b/x",
        "k8s:other/name/key",
        "vault:x",
    ],
)
def test_a_reference_outside_the_tenant_is_refused_when_written(reference: str) -> None:
    spec = {"type": "postgres", "config": CONFIG, "auth": {"password": reference}}
    assert faults_of("Connection", spec) == ["DR1019 /auth/password"]


BOUND = ("LEDGER", "CATALOG", "STORE", "KEY", "SIGN", "U", "UNBOUND")
STORE = {"url": "s3://lake/exports", "endpoint": "https://minio.example.com:9000"}
LAKE = {"type": "rest", "uri": "https://catalog.example.com"}


def uses_of(name: str) -> dict[str, tuple[str, dict[str, object], str]]:
    """Every field that takes a reference: kind, a spec with the reference in it, pointer."""
    reference = f"env:DATARECS_CONN_A_{name}"
    ref = {"secret_ref": reference}
    postgres, sql = CONFIG, {"type": "sql", "name": "lake", "postgres": CONFIG}
    signing = {"mode": "reference", "secret_refs": [reference]}

    def connection(kind: str, config: object, field: str) -> tuple[str, dict[str, object], str]:
        spec = {"type": kind, "config": config, "auth": {field: reference}}
        return "Connection", spec, f"/auth/{field}"

    def hook(place: str, **fields: object) -> tuple[str, dict[str, object], str]:
        return "WebhookEndpoint", {"url": URL, **fields}, place

    return {
        "password": connection("postgres", postgres, "password"),
        "catalog password": connection("iceberg", {"catalog": sql}, "password"),
        "token": connection("iceberg", {"catalog": LAKE}, "token"),
        "credential": connection("iceberg", {"catalog": LAKE}, "credential"),
        "credentials": connection("object_store", STORE, "credentials"),
        "bearer": hook("/auth/bearer/secret_ref", auth={"bearer": ref}),
        "header": hook("/headers/X-A/secret_ref", headers={"X-A": ref}),
        "signing": hook("/signing/secret_refs/0", signing=signing),
        "url": ("WebhookEndpoint", {"url_from": ref}, "/url_from/secret_ref"),
    }


MEANT = {
    "password": "LEDGER",
    "catalog password": "LEDGER",
    "token": "CATALOG",
    "credential": "CATALOG",
    "credentials": "STORE",
    "bearer": "KEY",
    "header": "KEY",
    "signing": "SIGN",
    "url": "U",
}


@pytest.mark.case("X65")
@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("place", MEANT)
def test_a_reference_is_accepted_where_its_secret_was_meant_for_alone(
    name: str, place: str
) -> None:
    kind, spec, pointer = uses_of(name)[place]
    assert faults_of(kind, spec) == ([] if MEANT[place] == name else [f"DR1081 {pointer}"])


@pytest.mark.case("X65")
@pytest.mark.parametrize("host", ["evil.example.com", "10.1.2.3", "db.example.com.evil.org"])
def test_another_host_beside_the_same_reference_is_refused(host: str) -> None:
    for place, change in (
        ("password", {"config": {**CONFIG, "host": host}}),
        ("token", {"config": {"catalog": {**LAKE, "uri": f"https://{host}"}}}),
        ("credential", {"config": {"catalog": {**LAKE, "uri": f"https://{host}"}}}),
        ("credential", {"config": {"catalog": {**LAKE, "token_uri": f"https://{host}/t"}}}),
        ("credentials", {"config": {**STORE, "endpoint": f"https://{host}"}}),
        (
            "bearer",
            {"url": f"https://{host}/"} if host[0].isalpha() else {"url": "https://b.example.com/"},
        ),
    ):
        kind, spec, pointer = uses_of(MEANT[place])[place]
        assert faults_of(kind, {**spec, **change}) == [f"DR1081 {pointer}"]


@pytest.mark.case("X65")
def test_a_credential_is_not_exchanged_for_a_token_that_goes_elsewhere() -> None:
    """The token server is the bound one, and the catalog that gets the token is not."""
    kind, spec, pointer = uses_of("CATALOG")["credential"]
    catalog = {**LAKE, "uri": "https://evil.example.com", "token_uri": f"{LAKE['uri']}/token"}
    assert faults_of(kind, {**spec, "config": {"catalog": catalog}}) == [f"DR1081 {pointer}"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "oracle", "config": {}}, ["DR1012 /type"]),
        ({"config": CONFIG}, ["DR1010 /type"]),
        ({"type": "postgres"}, ["DR1010 /config"]),
        (
            {"type": "postgres", "config": {}},
            ["DR1010 /config/host", "DR1010 /config/database", "DR1010 /config/user"],
        ),
        ({"type": "postgres", "config": {**CONFIG, "host": "127.0.0.1"}}, ["DR1017 /config/host"]),
        ({"type": "postgres", "config": {**CONFIG, "host": "a b"}}, ["DR1017 /config/host"]),
        ({"type": "postgres", "config": {**CONFIG, "port": 0}}, ["DR1012 /config/port"]),
        ({"type": "postgres", "config": {**CONFIG, "port": "1"}}, ["DR1011 /config/port"]),
        (
            {"type": "postgres", "config": {**CONFIG, "options": "-c x"}},
            ["DR1004 /config/options"],
        ),
        ({"type": "files", "config": {"root": "../x"}}, ["DR1008 /config/root"]),
        (
            {"type": "iceberg", "config": {"catalog": {"type": "glue"}}},
            ["DR1012 /config/catalog/type"],
        ),
        (
            {"type": "iceberg", "config": {"catalog": {"type": "sql", "name": "a"}}},
            ["DR1010 /config/catalog/postgres"],
        ),
        (
            {
                "type": "iceberg",
                "config": {
                    "catalog": {"type": "sql", "name": "a", "sqlite": "b", "postgres": CONFIG}
                },
            },
            ["DR1005 /config/catalog/postgres"],
        ),
        (
            {
                "type": "iceberg",
                "config": {
                    "catalog": {
                        "type": "hadoop",
                        "warehouse": "a",
                        "uri": "https://catalog.example.com",
                    }
                },
            },
            ["DR1006 /config/catalog/uri"],
        ),
        *(
            (
                {"type": "iceberg", "config": {"catalog": {"type": "rest", "uri": uri}}},
                ["DR1017 /config/catalog/uri"],
            )
            for uri in (
                "http://catalog.example.com",
                "https://u:p@catalog.example.com",
                "https://catalog.example.com/?token=x",
                "https://127.0.0.1/",
                "https://catalog.example.com:6443",
                "https://catalog.example.com:x",
            )
        ),
        *(
            ({"type": "object_store", "config": config}, expected)
            for config, expected in (
                ({}, ["DR1010 /config/url"]),
                ({"url": "lake"}, ["DR1017 /config/url"]),
                ({"url": "s3://lake/*.csv"}, ["DR1017 /config/url"]),
                ({"url": "s3://k:p@lake"}, ["DR1017 /config/url"]),
                ({"url": "az://lake"}, ["DR1010 /config/endpoint"]),
                ({"url": "gs://lake", "region": "eu"}, ["DR1009 /config/region"]),
                ({**STORE, "endpoint": "http://minio.example.com"}, ["DR1017 /config/endpoint"]),
                ({**STORE, "endpoint": "https://127.0.0.1"}, ["DR1017 /config/endpoint"]),
                *(
                    ({**STORE, "endpoint": endpoint}, ["DR1017 /config/endpoint"])
                    for endpoint in (
                        "https://minio.example.com:9000/lake/..",
                        "https://minio.example.com:9000/artefacts",
                        "https://minio.example.com:9000/.",
                        "https://artefacts.s3.eu-central-1.amazonaws.com",
                    )
                ),
                ({**STORE, "ca": "x"}, ["DR1015 /config/ca"]),
                ({**STORE, "secret_access_key": "x"}, ["DR1019 /config/secret_access_key"]),
            )
        ),
        ({"type": "files", "config": {"root": "data"}, "auth": {"password": "env:X"}}, None),
        ({"type": "files", "config": {"root": "data"}, "probe": {}}, ["DR1004 /probe"]),
    ],
)
def test_a_bad_connection_is_reported(spec: dict[str, object], expected: list[str] | None) -> None:
    assert faults_of("Connection", spec) == (expected or ["DR1004 /auth/password"])


@pytest.mark.case("W16")
@pytest.mark.case("X48")
@pytest.mark.case("X44")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "https://2130706433/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://017700000001/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://localhost./",
        "https://a@b/",
        "https://127.0.0.1\\@example.com/",
        "https://example.com:6379/",
        "https://example.com:22/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://example.com/\nx",
        "https://example.com/#x",
        "https://" + "a" * 2_048 + ".com/",
        "javascript:alert(1)",
        "",
    ],
)
def test_a_url_that_may_not_be_called_is_reported_at_its_pointer(url: str) -> None:
    (fault,) = decoded("WebhookEndpoint", {"url": url}).faults
    assert fault.pointer == "/spec/url"
    assert not url or url not in fault.sentence


def test_an_endpoint_is_read() -> None:
    spec = {
        "url": URL,
        "filter": {"types": ["reconciliation.run.finalised"], "exclude_types": ["webhook.**"]},
        "headers": {"X-Team": "finance", "X-Key": {"secret_ref": "env:DATARECS_CONN_A_KEY"}},
        "retry": {"delays": ["PT5S", "PT1M"], "max_age": "P1D"},
        "limits": {"rate_per_minute": 60},
    }
    _, read = decoded("WebhookEndpoint", spec).require()
    assert isinstance(read, WebhookEndpoint)
    assert (read.url, len(read.retry.delays), read.limits.rate_per_minute) == (URL, 2, 60)
    assert read.headers["X-Key"] == SecretRef(secret_ref="env:DATARECS_CONN_A_KEY")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["DR1010 /url"]),
        (
            {"url": URL, "url_from": {"secret_ref": "env:DATARECS_CONN_A_U"}},
            ["DR1005 /url"],
        ),
        ({"url": URL, "filter": {"types": ["Run.*"]}}, ["DR1015 /filter/types/0"]),
        ({"url": URL, "filter": {"types": []}}, ["DR1014 /filter/types"]),
        ({"url": URL, "filter": {"data": {}}}, ["DR1009 /filter/data"]),
        (
            {"url": URL, "filter": {"data": {"results": ["EQUAL"]}}},
            ["DR1012 /filter/data/results/0"],
        ),
        ({"url": URL, "format": "slack"}, ["DR1012 /format"]),
        ({"url": URL, "validation": "ask"}, ["DR1012 /validation"]),
        ({"url": URL, "ordering": "time"}, ["DR1012 /ordering"]),
        ({"url": URL, "max_block": "PT1H"}, ["DR1009 /max_block"]),
        ({"url": URL, "coalesce": ["run.finalised"]}, ["DR1012 /coalesce/0"]),
        (
            {
                "url": URL,
                "coalesce": ["run.rows_processed"],
                "filter": {"types": ["reconciliation.run.finalised"]},
            },
            ["DR1009 /coalesce/0"],
        ),
        ({"url": URL, "ordering": "run", "max_block": "PT1S"}, ["DR1046 /max_block"]),
        ({"url": URL, "signing": {"secret": "whsec_x"}}, ["DR1019 /signing/secret"]),
        ({"url": URL, "timeout": "PT31S"}, ["DR1046 /timeout"]),
        ({"url": URL, "retry": {"delays": ["PT0S"]}}, ["DR1046 /retry/delays/0"]),
        ({"url": URL, "limits": {"max_concurrent": 33}}, ["DR1012 /limits/max_concurrent"]),
        ({"url": URL, "headers": {"X-Api-Key": "hunter2"}}, ["DR1019 /headers/X-Api-Key"]),
        ({"url": URL, "headers": {"X-A": {"secret_ref": "x"}}}, None),
    ],
)
def test_a_bad_endpoint_is_reported(spec: dict[str, object], expected: list[str] | None) -> None:
    assert faults_of("WebhookEndpoint", spec) == (expected or ["DR1019 /headers/X-A/secret_ref"])


@pytest.mark.case("W05")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"exact": {"type": "io.datarecs.reconciliation.run.finalised"}}, None),
        ({"not": {"any": [{"prefix": {"subject": "run/"}}, {"suffix": {"type": ".x"}}]}}, None),
        ({"sql": "type = 'x'"}, "DR1012 /sql"),
        ({"exacts": {"subject": "x"}}, "DR1012 /exacts"),
        ({"all": []}, "DR1014 /all"),
        ({"exact": {}}, "DR1014 /exact"),
        ({"exact": {"subjekt": "x"}}, "DR1012 /exact/subjekt"),
        ({"exact": {"type": "reconciliation.run.finalised"}}, "DR1009 /exact/type"),
        ({"prefix": {"type": "reconciliation."}}, "DR1009 /prefix/type"),
        ({"prefix": {"type": "io."}}, None),
        ({"exact": {"subject": "a"}, "prefix": {"subject": "b"}}, "DR1014 "),
        ({"not": [{"exact": {"subject": "a"}}]}, "DR1011 /not"),
        ("x", "DR1011 "),
        ({"all": [{"sql": "1"}, {"exact": {"subject": "a"}}]}, "DR1012 /all/0/sql"),
        ({"not": {"not": {"not": {"not": {"not": {"exact": {"subject": "a"}}}}}}}, "DR1014 "),
        ({"not": {"not": {"not": {"not": {"exact": {"subject": "a"}}}}}}, None),
    ],
)
def test_an_expression_over_attributes_is_read_or_refused_at_its_place(
    expression: object, expected: str | None
) -> None:
    spec = {"url": URL, "filter": {"dialects": [expression]}}
    if expected is None:
        _, read = decoded("WebhookEndpoint", spec).require()
        assert isinstance(read, WebhookEndpoint)
        written = canonical_spec(Kind.WEBHOOK_ENDPOINT, read)
        assert written["filter"]["dialects"] == [expression]  # type: ignore[index,call-overload]  # a mapping
        assert decode_stored(Kind.WEBHOOK_ENDPOINT, "x", written) == read
        return
    code, _, pointer = expected.partition(" ")
    assert faults_of("WebhookEndpoint", spec) == [f"{code} /filter/dialects/0{pointer}"]


TYPES = ("io.datarecs.reconciliation.run.finalised", "io.datarecs.capture.job.started")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"types": ["**", "capture.**", TYPES[0]]}, None),
        ({"types": ["reconciliation.run.finalized"]}, "/types/0 did you mean 'reconciliation.run."),
        ({"types": ["**", "run.*"]}, "/types/1 did you mean 'reconciliation.run.*'?"),
        ({"types": ["sink.**"]}, "/types/0 docs/events.md lists all types"),
        ({"exclude_types": ["captures.**"]}, "/exclude_types/0 did you mean 'capture.**'?"),
        ({"dialects": [{"exact": {"type": TYPES[1]}}, {"suffix": {"type": ".started"}}]}, None),
        (
            {"dialects": [{"exact": {"type": "io.datarecs.capture.job.startet"}}]},
            "/dialects/0/exact/type did you mean 'io.datarecs.capture.job.started'?",
        ),
        (
            {"dialects": [{"not": {"prefix": {"type": "io.datarecs.sink."}}}]},
            "/dialects/0/not/prefix/type docs/events.md lists all types",
        ),
    ],
)
def test_a_filter_that_no_event_can_pass_is_refused_where_the_types_are_known(
    chosen: object, expected: str | None
) -> None:
    spec = {"url": URL, "filter": chosen}
    assert faults_of("WebhookEndpoint", spec) == []
    faults = decoded("WebhookEndpoint", spec, replace(SERVER, event_types=TYPES)).faults
    if expected is None:
        assert faults == ()
        return
    (fault,) = faults
    assert fault.code.docs_id == "DR1009"
    assert f"{fault.pointer} {fault.hint}".startswith(f"/spec/filter{expected}")


@pytest.mark.parametrize("name", ["Host", "content-type", "Authorization", "webhook-id", "ce-id"])
def test_a_header_of_the_platform_is_refused(name: str) -> None:
    assert len(faults_of("WebhookEndpoint", {"url": URL, "headers": {name: "x"}})) == 1


def test_a_rule_is_read() -> None:
    spec = {
        "match": {"jobs": ["orders"], "outcomes": ["UNMATCHED", "ERRORED:TIMED_OUT"]},
        "notify": "every_run",
        "to": TO,
        "detail": "full",
    }
    _, read = decoded("NotificationRule", spec).require()
    assert isinstance(read, NotificationRule)
    assert (read.match.jobs, read.notify) == (("orders",), Notify.EVERY_RUN)


def test_times_of_day_and_moments_of_a_rule_are_read_as_written() -> None:
    spec = {
        "to": TO,
        "mutes": [{"until": "2027-01-01T01:00:00+01:00", "reason": "audit"}],
        "quiet_hours": {
            "periods": [{"from": "22:00", "to": "07:00"}],
            "timezone": "Europe/Berlin",
            "except": ["ERRORED"],
        },
        "digest": {"at": ["07:00"], "days": ["MON"]},
        "remind_after": "P1D",
        "match": {"job_selector": {"team": "finance"}},
    }
    _, read = decoded("NotificationRule", spec).require()
    assert isinstance(read, NotificationRule)
    assert read.mutes[0].until == datetime(2027, 1, 1, tzinfo=UTC)
    assert read.quiet_hours is not None
    assert read.quiet_hours.periods[0].start == "22:00"
    written = canonical_spec(Kind.NOTIFICATION_RULE, read)
    assert decode_stored(Kind.NOTIFICATION_RULE, "r", written) == read


@pytest.mark.case("M12")
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["DR1010 /to"]),
        ({"to": []}, ["DR1014 /to"]),
        ({"to": TO, "match": {"outcomes": ["FAILED"]}}, ["DR1012 /match/outcomes/0"]),
        ({"to": TO, "match": {"jobs": ["Orders"]}}, ["DR1013 /match/jobs/0"]),
        ({"to": TO, "channel": "slack"}, ["DR1012 /channel"]),
        ({"to": TO, "digest": {}}, ["DR1010 /digest/at"]),
        ({"to": TO, "digest": {"at": ["7:00"]}}, ["DR1015 /digest/at/0"]),
        ({"to": TO, "digest": {"at": [{}]}}, ["DR1011 /digest/at/0"]),
        ({"to": TO, "mutes": [{"reason": "x"}]}, ["DR1010 /mutes/0/until"]),
        ({"to": TO, "mutes": [{"until": "2027-01-01T00:00:00"}]}, ["DR1015 /mutes/0/until"]),
        ({"to": TO, "mutes": [{"until": "soon"}]}, ["DR1015 /mutes/0/until"]),
        ({"to": TO, "mutes": [{"until": []}]}, ["DR1011 /mutes/0/until"]),
        ({"to": TO, "quiet_hours": {}}, ["DR1010 /quiet_hours/periods"]),
        (
            {"to": TO, "quiet_hours": {"periods": [{"from": "22:00", "to": "22:00"}]}},
            ["DR1014 /quiet_hours/periods/0"],
        ),
        ({"to": TO, "after_consecutive": 11}, ["DR1012 /after_consecutive"]),
        ({"to": TO, "match": {"detail_codes": ["x"]}}, ["DR1015 /match/detail_codes/0"]),
        (
            {"to": TO, "notify": "every_run", "remind_after": "P1D"},
            ["DR1009 /remind_after"],
        ),
        ({"to": [{"role": "job_owner"}]}, ["DR1004 /to/0/role", "DR1010 /to/0/address"]),
    ],
)
def test_a_bad_rule_is_reported(spec: dict[str, object], expected: list[str]) -> None:
    assert faults_of("NotificationRule", spec) == expected


@pytest.mark.case("X83")
@pytest.mark.case("M24")
@pytest.mark.parametrize(
    "address", ["a@b.c\r\nBcc: x@y.z", "a b@c.d", "no", "a@b\0.c", "x" * 300 + "@b.c"]
)
def test_a_hostile_address_is_refused_and_never_repeated(address: str) -> None:
    (fault,) = decoded("NotificationRule", {"to": [{"address": address}]}).faults
    assert fault.code in {SpecCode.BAD_ADDRESS, SpecCode.BAD_TEXT}
    assert fault.pointer == "/spec/to/0/address"
    assert address not in fault.sentence


@pytest.mark.case("X83")
def test_a_rule_has_at_most_100_recipients() -> None:
    assert faults_of("NotificationRule", {"to": TO * 101}) == ["DR1014 /to"]

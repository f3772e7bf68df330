from datetime import UTC, datetime
from urllib.parse import unquote
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.catalog import layout
from datarecs_core.errors.storage import BlobKeyRefusedError
from datarecs_core.values import RunId, TenantId

TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
OTHER = TenantId(UUID("019b0000-0000-7000-8000-000000000002"))
RUN = RunId(UUID("019bc0ef-2a10-7d44-9b6f-0c1d2e3f4a5b"))
ROOT = f"accounts/{TENANT}/runs/{RUN}"


@pytest.mark.case("S13")
def test_every_key_of_a_run_is_spelled_as_in_the_spec() -> None:
    assert [
        layout.run_document(TENANT, RUN),
        layout.result_file(TENANT, RUN, 2),
        layout.extract_prefix(TENANT, RUN, lease_epoch=3, source="ledger"),
        layout.differences_part(TENANT, RUN, "totals by day", bucket=7),
        layout.digests(TENANT, RUN),
        layout.report(TENANT, RUN, "report.html"),
    ] == [
        f"{ROOT}/run.json",
        f"{ROOT}/2/comparator-result.json",
        f"{ROOT}/attempt-3/extract/ledger/",
        f"{ROOT}/differences/stage=totals%20by%20day/part-00007.parquet",
        f"{ROOT}/digests.parquet",
        f"{ROOT}/report/report.html",
    ]


@pytest.mark.case("S11")
@given(st.text(min_size=1))
def test_any_name_becomes_one_segment_that_decodes_to_the_name(name: str) -> None:
    segment = layout.segment(name)
    if not segment.startswith("~"):
        assert unquote(segment) == name
    assert "/" not in segment
    assert segment not in {".", ".."}
    assert len(segment) <= layout.MAX_SEGMENT_BYTES


@pytest.mark.case("S11")
@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("a.b-c_d~e", "a.b-c_d~e"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("~tilde", "%7Etilde"),
        ("50%_/x", "50%25_%2Fx"),
        ("ü 🦆", "%C3%BC%20%F0%9F%A6%86"),
    ],
)
def test_odd_names_are_percent_encoded_in_upper_case(name: str, segment: str) -> None:
    assert layout.segment(name) == segment


@pytest.mark.case("S12")
def test_a_path_of_900_bytes_becomes_a_hash_and_the_key_stays_short() -> None:
    long = layout.segment("d/" * 450)
    assert long.startswith("~")
    assert len(long) == 65
    assert len(layout.report(TENANT, RUN, "d/" * 450).encode()) <= layout.MAX_KEY_BYTES


def test_an_empty_name_has_no_segment() -> None:
    with pytest.raises(ValueError, match="empty segment"):
        layout.segment("")


@given(stage=st.text(min_size=1), source=st.text(min_size=1), name=st.text(min_size=1))
def test_keys_made_here_are_accepted_by_their_account_and_by_no_other(
    stage: str, source: str, name: str
) -> None:
    keys = [layout.differences_part(TENANT, RUN, stage, bucket=1)]
    prefix = layout.extract_prefix(TENANT, RUN, lease_epoch=1, source=source)
    if name not in {".", ".."} and source not in {".", ".."}:
        keys += [layout.report(TENANT, RUN, name), f"{prefix}part-0.parquet"]
        layout.check_prefix(prefix, TENANT)
    for key in keys:
        layout.check_key(key, TENANT)
        with pytest.raises(BlobKeyRefusedError):
            layout.check_key(key, OTHER)


@pytest.mark.case("S14")
@pytest.mark.case("X08")
@pytest.mark.parametrize(
    "key",
    [
        f"accounts/{OTHER}/runs/x/run.json",
        f"accounts/{TENANT}/../{OTHER}/x",
        "accounts/x",
        "",
        f"accounts/{TENANT}/%2e%2e/x",
        f"accounts/{TENANT}/%2E%2E/x",
        f"accounts/{TENANT}/./x",
        f"Accounts/{TENANT}/x",
        f"accounts/{str(TENANT).replace('b', 'B')}/x",
        f"/accounts/{TENANT}/x",
        f"accounts/{TENANT}//x",
        f"accounts/{TENANT}/a\\b",
        f"accounts/{TENANT}/a\x00b",
        f"accounts/{TENANT}/a%2fb",
        f"accounts/{TENANT}/a%zz",
        f"accounts/{TENANT}/ü",
        f"accounts/{TENANT}/",
        f"accounts/{TENANT}",
        f"accounts/{TENANT}/{'a/' * 520}x",
        f"accounts/{TENANT}/#tmp",
        f"accounts/{TENANT}/a\n",
    ],
)
def test_foreign_dotted_and_uncanonical_keys_are_refused(key: str) -> None:
    with pytest.raises(BlobKeyRefusedError):
        layout.check_key(key, TENANT)


def test_a_prefix_ends_with_a_slash_and_stays_in_the_account() -> None:
    layout.check_prefix(f"accounts/{TENANT}/", TENANT)
    layout.check_prefix(f"{ROOT}/", TENANT)
    for prefix in (ROOT, f"accounts/{OTHER}/", f"accounts/{TENANT}/../", "", "/"):
        with pytest.raises(BlobKeyRefusedError):
            layout.check_prefix(prefix, TENANT)


SHA = "ab" * 32


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (f"accounts/a/table/{SHA}.pb", SHA),
        (f"accounts/a/staging/1/2/7-{SHA}", SHA),
        (f"accounts/a/{SHA}", SHA),
        ("accounts/a/run.json", None),
        (f"accounts/a/~{SHA}", None),
        (f"accounts/a/{SHA}/x", None),
        (f"accounts/a/x{SHA}.pb", None),
    ],
)
def test_a_content_addressed_key_contains_its_hash(key: str, expected: str | None) -> None:
    assert layout.content_hash(key) == expected


CATALOG, NAMESPACE, TABLE, VIEW, CONNECTOR = (
    UUID(f"019b0000-0000-7000-8000-00000000000{number}") for number in range(3, 8)
)
AT = datetime(2026, 1, 15, 12, 0, 0, 999_999, tzinfo=UTC)
BLOB_KEYS_OF_SOURCE_002 = {
    "/accounts/{account_id}/account/{sha}.pb": layout.account_blob(TENANT, SHA),
    "/accounts/{account_id}/catalogs/{catalog_id}/catalog/{sha}.pb": layout.catalog_blob(
        TENANT, CATALOG, SHA
    ),
    "/accounts/{account_id}/namespaces/{namespace_id}/namespace/{sha}.pb": layout.namespace_blob(
        TENANT, NAMESPACE, SHA
    ),
    "/accounts/{account_id}/tables/{table_id}/table/{sha}.pb": layout.table_blob(
        TENANT, TABLE, SHA
    ),
    "/accounts/{account_id}/tables/{table_id}/snapshots/{snapshot_id}/snapshot/{sha}.pb": (
        layout.snapshot_blob(TENANT, TABLE, 7, SHA)
    ),
    "/accounts/{account_id}/tables/{table_id}/target-stats/{target_id}/{sha}.pb": (
        layout.target_stats_blob(TENANT, TABLE, "table", SHA)
    ),
    "/accounts/{account_id}/tables/{table_id}/file-stats/{file_path}/{sha}.pb": (
        layout.file_stats_blob(TENANT, TABLE, "a/b", SHA)
    ),
    "/accounts/{account_id}/tables/{table_id}/constraints/{snapshot_id}/{sha}.pb": (
        layout.constraints_blob(TENANT, TABLE, 7, SHA)
    ),
    "/accounts/{account_id}/views/{view_id}/view/{sha}.pb": layout.view_blob(TENANT, VIEW, SHA),
    "/accounts/{account_id}/connectors/{connector_id}/connector/{sha}.pb": (
        layout.connector_blob(TENANT, CONNECTOR, SHA)
    ),
    "/accounts/{account_id}/idempotency/{key}/idempotency.pb": layout.idempotency_blob(
        TENANT, "k 1"
    ),
    "/accounts/{account_id}/idempotency/{key}/idempotency-{suffix}.pb": layout.idempotency_blob(
        TENANT, "k 1", SHA
    ),
}
POINTER_KEYS_OF_SOURCE_002 = {
    "/accounts/by-id/{account_id}": layout.account_by_id(TENANT),
    "/accounts/by-name/{account_name}": layout.account_by_name("bank"),
    "/accounts/{account_id}": layout.account_pointer(TENANT),
    "/accounts/{account_id}/catalogs/by-id/{catalog_id}": layout.catalog_by_id(TENANT, CATALOG),
    "/accounts/{account_id}/catalogs/by-name/{catalog_name}": layout.catalog_by_name(
        TENANT, "lake"
    ),
    "/accounts/{account_id}/namespaces/by-id/{namespace_id}": layout.namespace_by_id(
        TENANT, NAMESPACE
    ),
    "/accounts/{account_id}/catalogs/{catalog_id}/namespaces/by-path/{path}": (
        layout.namespace_by_path(TENANT, CATALOG, ("a", "b/c"))
    ),
    "/accounts/{account_id}/tables/by-id/{table_id}": layout.table_by_id(TENANT, TABLE),
    "/accounts/{account_id}/catalogs/{catalog_id}/namespaces/{namespace_id}/tables/by-name/"
    "{table_name}": layout.table_by_name(TENANT, CATALOG, NAMESPACE, "orders"),
    "/accounts/{account_id}/views/by-id/{view_id}": layout.view_by_id(TENANT, VIEW),
    "/accounts/{account_id}/catalogs/{catalog_id}/namespaces/{namespace_id}/views/by-name/"
    "{view_name}": layout.view_by_name(TENANT, CATALOG, NAMESPACE, "open orders"),
    "/accounts/{account_id}/tables/{table_id}/snapshots/by-id/{snapshot_id}": (
        layout.snapshot_by_id(TENANT, TABLE, 7)
    ),
    "/accounts/{account_id}/tables/{table_id}/snapshots/by-time/{timestamp}-{newest_snapshot_id}": (
        layout.snapshot_by_time(TENANT, TABLE, AT, 7)
    ),
    "/accounts/{account_id}/tables/{table_id}/snapshots/{snapshot_id}/stats/targets/{target_id}": (
        layout.target_stats(TENANT, TABLE, 7, "table")
    ),
    "/accounts/{account_id}/tables/{table_id}/snapshots/{snapshot_id}/stats/files/{file_path}": (
        layout.file_stats(TENANT, TABLE, 7, "a/b")
    ),
    "/accounts/{account_id}/tables/{table_id}/snapshots/{snapshot_id}/stats/constraints": (
        layout.constraints_of_stats(TENANT, TABLE, 7)
    ),
    "/accounts/{account_id}/tables/{table_id}/constraints/by-snapshot/{snapshot_id}": (
        layout.constraints_by_snapshot(TENANT, TABLE, 7)
    ),
    "/accounts/{account_id}/connectors/by-id/{connector_id}": layout.connector_by_id(
        TENANT, CONNECTOR
    ),
    "/accounts/{account_id}/connectors/by-name/{connector_name}": layout.connector_by_name(
        TENANT, "ledger"
    ),
    "/accounts/{account_id}/idempotency/{operation}/{key}": layout.idempotency(
        TENANT, "capture", "k 1"
    ),
    "/accounts/{account_id}/catalogs/{catalog_id}/markers/children": layout.catalog_children(
        TENANT, CATALOG
    ),
    "/accounts/{account_id}/namespaces/{namespace_id}/markers/children": (
        layout.namespace_children(TENANT, NAMESPACE)
    ),
}
SEGMENTS = {
    "account_id": TENANT,
    "account_name": "bank",
    "catalog_id": CATALOG,
    "catalog_name": "lake",
    "namespace_id": NAMESPACE,
    "path": "a/b%2Fc",
    "table_id": TABLE,
    "table_name": "orders",
    "view_id": VIEW,
    "view_name": "open%20orders",
    "snapshot_id": "0000000000000000007",
    "newest_snapshot_id": "9223372036854775800",
    "timestamp": "9223370268376374808",
    "target_id": "table",
    "file_path": "a%2Fb",
    "connector_id": CONNECTOR,
    "connector_name": "ledger",
    "operation": "capture",
    "key": "k%201",
    "suffix": SHA,
    "sha": SHA,
}


@pytest.mark.case("S13")
def test_every_blob_key_of_source_002_is_spelled_as_there() -> None:
    assert {f"/{key}" for key in BLOB_KEYS_OF_SOURCE_002.values()} == {
        template.format(**SEGMENTS) for template in BLOB_KEYS_OF_SOURCE_002
    }
    assert len(BLOB_KEYS_OF_SOURCE_002) == 12


@pytest.mark.case("S13")
@pytest.mark.parametrize("template", POINTER_KEYS_OF_SOURCE_002)
def test_every_pointer_key_of_source_002_is_spelled_as_there(template: str) -> None:
    assert POINTER_KEYS_OF_SOURCE_002[template] == template.format(**SEGMENTS)


@pytest.mark.case("S13")
def test_no_key_of_source_002_is_missing_here() -> None:
    assert len(POINTER_KEYS_OF_SOURCE_002) == 22
    assert len(set(POINTER_KEYS_OF_SOURCE_002.values())) == 22


@pytest.mark.case("S33")
@given(
    commits=st.lists(
        st.tuples(
            st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1)),  # noqa: DTZ001  made aware below
            st.integers(0, layout.MAX_NUMBER),
        ),
        max_size=5,
        unique=True,
    )
)
def test_the_newest_commit_has_the_first_key(commits: list[tuple[datetime, int]]) -> None:
    aware = [(at.replace(tzinfo=UTC, microsecond=0), snapshot) for at, snapshot in commits]
    keys = [layout.snapshot_by_time(TENANT, TABLE, at, snapshot) for at, snapshot in aware]
    by_key = [pair for _, pair in sorted(zip(keys, aware, strict=True))]
    assert by_key == sorted(aware, reverse=True)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_number_beyond_63_bits_has_no_key(number: int) -> None:
    with pytest.raises(ValueError, match="is not between"):
        layout.snapshot_by_id(TENANT, TABLE, number)

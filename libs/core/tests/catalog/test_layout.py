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

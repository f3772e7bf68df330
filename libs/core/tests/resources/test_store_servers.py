"""Servers of object stores: which addresses are refused, and which name the same bucket."""

import pytest

from datarecs_core.resources.object_urls import ObjectUrl, StoreKind
from datarecs_core.resources.store_servers import BucketAddress, endpoint_fault

S3, GS, AZ = StoreKind.S3, StoreKind.GS, StoreKind.AZ


@pytest.mark.parametrize(
    ("kind", "endpoint"),
    [
        (S3, "https://minio.example.com:9000"),
        (S3, "https://minio.example.com/"),
        (S3, "https://s3.amazonaws.com"),
        (S3, "https://s3.eu-west-1.amazonaws.com"),
        (S3, "https://s3-us-gov-west-1.amazonaws.com"),
        (S3, "https://s3.cn-north-1.amazonaws.com.cn"),
        (S3, "https://s3.dualstack.eu-west-1.amazonaws.com"),
        (S3, "https://s3-fips.us-east-1.amazonaws.com"),
        (S3, "https://s3-fips.dualstack.us-east-1.amazonaws.com"),
        (S3, "https://bucket.vpce-0a1b-2c.s3.eu-west-1.vpce.amazonaws.com"),
        (S3, "https://storage.googleapis.com"),
        (GS, "https://storage.googleapis.com"),
        (GS, "https://storage.europe-west3.rep.googleapis.com"),
        (GS, "https://storage-psc.p.googleapis.com"),
        (AZ, "https://account.blob.core.windows.net"),
        (AZ, "http://127.0.0.1:10000/devstoreaccount1"),
        (AZ, "http://localhost:10000/devstoreaccount1/"),
        (AZ, "http://[::1]:10000/devstoreaccount1"),
    ],
)
def test_the_address_of_a_server_is_accepted(kind: StoreKind, endpoint: str) -> None:
    assert endpoint_fault(kind, endpoint) is None


@pytest.mark.parametrize(
    ("kind", "endpoint", "words"),
    [
        (S3, "https://minio:9000/lake/..", "write https://minio:9000,"),
        (S3, "https://minio:9000/artefacts", "the endpoint has the path /artefacts"),
        (S3, "https://minio:9000/.", "the endpoint has the path /."),
        (S3, "https://minio:9000//", "the endpoint has the path //"),
        (S3, "https://127.0.0.1:9000/artefacts", "the endpoint has the path"),
        (GS, "https://storage.googleapis.com/artefacts", "the endpoint has the path"),
        (AZ, "https://account.blob.core.windows.net/artefacts", "the endpoint has the path"),
        (AZ, "http://127.0.0.1:10000/account/artefacts", "the endpoint has the path"),
        (AZ, "http://127.0.0.1:10000/..", "the endpoint has the path"),
        (S3, "https://minio?x=1", "the endpoint has a query or fragment"),
        (S3, "https://minio/?", "the endpoint has a query or fragment"),
        (S3, "https://minio#artefacts", "the endpoint has a query or fragment"),
        (S3, "https://[minio", "is not a URL"),
        (S3, "https://artefacts.s3.eu-west-1.amazonaws.com", "and the bucket in"),
        (S3, "https://artefacts.s3.amazonaws.com.", "and the bucket in"),
        (S3, "https://ARTEFACTS.S3.AMAZONAWS.COM", "and the bucket in"),
        (S3, "https://a.b.s3-eu-west-1.amazonaws.com", "and the bucket in"),
        (
            S3,
            "https://artefacts.s3.dualstack.eu-west-1.amazonaws.com",
            "and the bucket in",
        ),
        (S3, "https://s3-fips.s3-eu-west-1.amazonaws.com", "and the bucket in"),
        (S3, "https://artefacts.s3-accelerate.amazonaws.com", "and the bucket in"),
        (S3, "https://artefacts.s3-accelerate.dualstack.amazonaws.com", "and the bucket in"),
        (
            S3,
            "https://own-1234.s3-accesspoint.eu-west-1.amazonaws.com",
            "and the bucket in",
        ),
        (S3, "https://x.mrap.accesspoint.s3-global.amazonaws.com", "and the bucket in"),
        (
            S3,
            "https://accesspoint.vpce-1.s3.eu-west-1.vpce.amazonaws.com",
            "and the bucket in",
        ),
        (
            S3,
            "https://a.bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com",
            "and the bucket in",
        ),
        (GS, "https://artefacts.storage.googleapis.com", "and the bucket in"),
    ],
)
def test_an_address_that_contains_more_than_a_server_is_refused(
    kind: StoreKind, endpoint: str, words: str
) -> None:
    assert words in (endpoint_fault(kind, endpoint) or "")


def test_a_fault_does_not_repeat_credentials() -> None:
    fault = endpoint_fault(S3, "https://user:password@minio/x") or ""
    assert "write https://minio" in fault
    assert "password" not in fault


@pytest.mark.parametrize(
    ("platform", "endpoint", "url", "same"),
    [
        ("https://s3.eu-west-1.amazonaws.com", "https://s3.amazonaws.com", "s3://lake/x", True),
        ("https://s3.eu-west-1.amazonaws.com", "https://s3.amazonaws.com", "s3://pond/x", False),
        (
            "https://s3.amazonaws.com",
            "https://bucket.vpce-1.s3.eu-west-1.vpce.amazonaws.com",
            "s3://lake",
            True,
        ),
        ("https://s3.amazonaws.com", "https://lake.s3.amazonaws.com", "s3://prod", True),
        ("https://s3.amazonaws.com", "https://s3.amazonaws.com", "s3://own-x-s3alias", True),
        ("https://minio.internal", "https://minio", "s3://own-x-s3alias", False),
        ("https://minio:9000", "http://MINIO.:9001", "s3://lake", True),
        ("https://minio.internal", "https://lake.minio.internal", "s3://prod", True),
        ("https://minio.internal", "https://other", "s3://lake", False),
        ("http://minio:10000/account", "https://minio:10000", "az://lake", True),
        ("https://minio:10000", "https://minio:10000/lake", "az://prod", True),
        ("https://storage.googleapis.com", "https://storage.googleapis.com", "s3://lake", True),
        (
            "https://storage.googleapis.com",
            "https://commondatastorage.googleapis.com",
            "gs://lake",
            True,
        ),
        (
            "https://own.blob.core.windows.net",
            "https://own-secondary.blob.core.windows.net",
            "az://lake",
            True,
        ),
        (
            "https://own.blob.core.windows.net",
            "https://other.blob.core.windows.net",
            "az://lake",
            False,
        ),
        (None, "https://other.blob.core.windows.net", "az://lake", True),
        (None, "https://minio.internal", "s3://lake", False),
    ],
)
def test_the_bucket_of_the_platform_is_recognised(
    platform: str | None, endpoint: str, url: str, *, same: bool
) -> None:
    bucket = BucketAddress.of(ObjectUrl.parse("s3://lake/x"), platform)
    assert bucket.is_named_by(ObjectUrl.parse(url), endpoint) is same

"""Addresses of objects: what is accepted, and which of them are the same place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.resources.object_urls import (
    ObjectUrl,
    StoreKind,
    azure_account,
    endpoint_of,
    is_object_url,
    object_url_fault,
    store_config,
    store_credentials,
)


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://lake", "lake", ""),
        ("s3://lake/", "lake", ""),
        ("gs://a.b-c_d/x", "a.b-c_d", "x"),
        ("az://$web/x/y/", "$web", "x/y"),
        ("s3://lake/a%2e%2e b/ü?#", "lake", "a%2e%2e b/ü?#"),
    ],
)
def test_an_address_is_a_bucket_and_a_prefix(text: str, bucket: str, prefix: str) -> None:
    url = ObjectUrl.parse(text)
    assert (url.kind, url.bucket, url.prefix) == (StoreKind(text[:2]), bucket, prefix)
    assert ObjectUrl.parse(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "s3:/lake",
        "S3://lake",
        "https://lake/x",
        "s3://",
        "s3://ab",
        "s3://Lake/x",
        "s3://user:password@lake/x",
        "s3://lake:443/x",
        "s3://lake//x",
        "s3://lake/a/../b",
        "s3://lake/a/./b",
        "s3://lake/..",
        "s3://lake/a\0b",
        "s3://lake/a\nb",
        "s3://la\nke/x",
    ],
)
def test_anything_else_is_refused_without_repeating_it(text: str) -> None:
    fault = object_url_fault(text)
    assert fault is not None
    assert "password" not in fault


@pytest.mark.parametrize(
    ("text", "root", "below"),
    [
        ("s3://lake/a/b", "s3://lake", "a/b"),
        ("s3://lake/a/b", "s3://lake/a", "b"),
        ("s3://lake/a", "s3://lake/a", ""),
        ("s3://lake/ab", "s3://lake/a", None),
        ("s3://lake", "s3://lake/a", None),
        ("s3://pond/a/b", "s3://lake/a", None),
        ("gs://lake/a/b", "s3://lake/a", None),
    ],
)
def test_only_an_address_below_a_root_has_a_path(text: str, root: str, below: str | None) -> None:
    assert ObjectUrl.parse(text).below(ObjectUrl.parse(root)) == below


@given(st.text())
def test_whatever_is_written_is_parsed_or_refused(text: str) -> None:
    url = f"s3://lake/{text}"
    assert is_object_url(url)
    if object_url_fault(url) is None:
        parts = ObjectUrl.parse(url).prefix.split("/")
        assert ".." not in parts


def test_every_kind_has_its_endpoint() -> None:
    assert endpoint_of(ObjectUrl.parse("s3://lake"), None, "eu-west-1") == (
        "https://s3.eu-west-1.amazonaws.com"
    )
    assert endpoint_of(ObjectUrl.parse("gs://lake"), None, None) == "https://storage.googleapis.com"
    assert endpoint_of(ObjectUrl.parse("s3://lake"), "https://minio/", None) == "https://minio"
    with pytest.raises(ValueError, match="needs an endpoint"):
        endpoint_of(ObjectUrl.parse("az://lake"), None, None)


@pytest.mark.parametrize(
    ("endpoint", "account"),
    [
        ("https://books.blob.core.windows.net", "books"),
        ("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1"),
    ],
)
def test_the_account_of_azure_is_in_its_endpoint(endpoint: str, account: str) -> None:
    assert azure_account(endpoint) == account
    config = store_config(ObjectUrl.parse("az://lake"), endpoint=endpoint, credentials="a2V5")
    assert config == {
        "container_name": "lake",
        "endpoint": endpoint,
        "account_name": account,
        "account_key": "a2V5",
    }


@pytest.mark.parametrize(
    ("kind", "text", "parts"),
    [
        ("s3", "id:secret", {"access_key_id": "id", "secret_access_key": "secret"}),
        (
            "s3",
            "id:secret:token:x",
            {
                "access_key_id": "id",
                "secret_access_key": "secret",
                "session_token": "token:x",
            },
        ),
        ("gs", '{"type": 1}', {"service_account_key": '{"type": 1}'}),
        ("az", "a2V5", {"account_key": "a2V5"}),
        ("az", "?sv=1&sig=x", {"sas_key": "sv=1&sig=x"}),
    ],
)
def test_credentials_have_the_form_of_their_provider(
    kind: str, text: str, parts: dict[str, str]
) -> None:
    assert store_credentials(StoreKind(kind), text) == parts


@pytest.mark.parametrize(
    ("kind", "text"),
    [("s3", "id"), ("s3", ":secret"), ("s3", "id:"), ("gs", "k3y"), ("az", "no base64")],
)
def test_credentials_of_another_form_are_refused_without_repeating_them(
    kind: str, text: str
) -> None:
    with pytest.raises(ValueError, match="credentials of") as caught:
        store_credentials(StoreKind(kind), text)
    assert text not in str(caught.value).replace("key id", "")

"""Which catalog a connection leads to."""

from typing import Any

import pytest

from datarecs_core.resources.catalog_identity import catalog_identity

POSTGRES = {"host": "db.example.com", "database": "lake", "user": "a"}
REST = {"type": "rest", "uri": "https://catalog.example.com/v1", "warehouse": "w"}


def spec(catalog: object, **config: object) -> dict[str, Any]:
    return {"type": "iceberg", "config": {"catalog": catalog, **config}}


def sql(**catalog: object) -> dict[str, object]:
    return {"type": "sql", "name": "main", **catalog}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sql(sqlite="/a/lake.db"), sql(sqlite="/a//./lake.db")),
        (
            sql(postgres=POSTGRES),
            sql(postgres={**POSTGRES, "host": "DB.example.com.", "port": 5432, "user": "b"}),
        ),
        (sql(postgres=POSTGRES), sql(postgres={**POSTGRES, "sslmode": "require"})),
        (REST, {**REST, "uri": "https://Catalog.example.com:443/v1/"}),
        (REST, {**REST, "scope": "other", "token_uri": "https://login.example.com"}),
        ({"type": "hadoop", "warehouse": "/w"}, {"type": "hadoop", "warehouse": "/w/"}),
    ],
)
def test_one_catalog_has_one_identity(one: object, other: object) -> None:
    identity = catalog_identity(spec(one))
    assert identity is not None
    assert catalog_identity(spec(other, store={"url": "s3://lake/x"})) == identity


def test_other_catalogs_have_other_identities() -> None:
    catalogs = [
        sql(sqlite="/a/lake.db"),
        sql(sqlite="/b/lake.db"),
        {**sql(sqlite="/a/lake.db"), "name": "second"},
        sql(postgres=POSTGRES),
        sql(postgres={**POSTGRES, "database": "other"}),
        sql(postgres={**POSTGRES, "port": 5433}),
        REST,
        {**REST, "warehouse": "other"},
        {**REST, "uri": "https://catalog.example.com:8443/v1"},
        {"type": "hadoop", "warehouse": "/a/lake.db"},
    ]
    assert len({catalog_identity(spec(one)) for one in catalogs} - {None}) == len(catalogs)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"config": []},
        spec(None),
        spec({"type": "rest"}),
        spec({"type": "sql", "name": "x"}),
        spec({"type": "nessie", "uri": "https://x"}),
    ],
)
def test_a_configuration_that_says_too_little_has_none(stored: dict[str, object]) -> None:
    assert catalog_identity(stored) is None


def test_an_address_that_is_none_stands_for_itself() -> None:
    (_, address, _) = catalog_identity(spec({"type": "rest", "uri": "https://x:port"})) or ("",) * 3
    assert address == "https://x:port"

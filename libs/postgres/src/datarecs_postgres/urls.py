"""Database URLs as people write them, turned into what SQLAlchemy and libpq want.

Its own module because engines, migrations, bootstrap and the listener all take the same URL and
none may guess a driver.
"""

from sqlalchemy import URL, make_url

DRIVER = "postgresql+psycopg"


def engine_url(url: str) -> URL:
    """`postgresql://`, `postgres://` and `postgresql+psycopg://` alike, with the driver named.

    Raises:
        ValueError: another kind of URL.
    """
    parts = make_url(url.replace("postgres://", "postgresql://", 1))
    if parts.drivername not in {"postgresql", DRIVER}:
        raise ValueError(f"a database URL starts with postgresql://, not {parts.drivername}://")
    return parts.set(drivername=DRIVER)


def conninfo(url: str, *, database: str | None = None) -> str:
    """The URL as libpq reads it, optionally of another database of the same server."""
    parts = engine_url(url).set(drivername="postgresql")
    if database is not None:
        parts = parts.set(database=database)
    return parts.render_as_string(hide_password=False)

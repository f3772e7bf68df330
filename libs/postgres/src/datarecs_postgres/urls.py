"""Convert database URLs of users to the forms of SQLAlchemy and libpq.

A separate module because engines, migrations, bootstrap and the listener use the same URL and must
choose the same driver.
"""

from sqlalchemy import URL, make_url

DRIVER = "postgresql+psycopg"


def engine_url(url: str) -> URL:
    """`postgresql://`, `postgres://` and `postgresql+psycopg://` are equal; the driver is added.

    Raises:
        ValueError: another kind of URL.
    """
    parts = make_url(url.replace("postgres://", "postgresql://", 1))
    if parts.drivername not in {"postgresql", DRIVER}:
        raise ValueError(f"a database URL starts with postgresql://, not {parts.drivername}://")
    return parts.set(drivername=DRIVER)


def conninfo(url: str, *, database: str | None = None) -> str:
    """The URL in the form of libpq, optionally for another database of the same server."""
    parts = engine_url(url).set(drivername="postgresql")
    if database is not None:
        parts = parts.set(database=database)
    return parts.render_as_string(hide_password=False)

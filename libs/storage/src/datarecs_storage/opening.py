"""Which store keeps the artefacts of runs: a folder, or an object store.

Separate from both stores because a machine without object stores does not import their library.
"""

# ruff: noqa: PLC0415 - as said above

from importlib.util import find_spec
from pathlib import Path

from datarecs_application.ports.outside import BlobStores
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.resources.object_urls import is_object_url
from datarecs_storage.blobs import FileBlobStores


def open_blob_stores(
    url: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    ca_file: str | None = None,
    credentials: str | None = None,
) -> BlobStores:
    """The stores of DATARECS_BLOB__URL and the settings beside it.

    Args:
        url: `file:///absolute/folder`, or an address of objects.
        endpoint: of the object store; None is the provider's.
        region: of an S3 bucket.
        ca_file: more authorities that may sign the server's certificate, PEM.
        credentials: in the form of the provider; None takes them from the environment.

    Raises:
        BlobStoreUnavailableError: the settings, or a folder that cannot be used.
    """
    if not is_object_url(url):
        return FileBlobStores.at(url)
    if find_spec("obstore") is None:
        raise BlobStoreUnavailableError(
            where=url,
            cause="object stores need a part that is not installed; install it with: pip install "
            "'datarecs[stores]'",
        )
    from datarecs_storage.object_blobs import ObjectBlobStores

    return ObjectBlobStores(
        url,
        endpoint=endpoint,
        region=region,
        authorities=_authorities(url, ca_file),
        credentials=credentials,
    )


def _authorities(url: str, ca_file: str | None) -> str | None:
    if ca_file is None:
        return None
    try:
        text = Path(ca_file).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as failure:
        reason = getattr(failure, "strerror", None) or "it is not a text"
        cause = f"DATARECS_BLOB__CA_FILE {ca_file} cannot be read: {reason}"
        raise BlobStoreUnavailableError(where=url, cause=cause) from None
    if "-----BEGIN CERTIFICATE-----" not in text:
        cause = f"DATARECS_BLOB__CA_FILE {ca_file} contains no certificate; write it in PEM"
        raise BlobStoreUnavailableError(where=url, cause=cause)
    return text

"""The section of the blob store: its address, and how to sign in.

A separate module because it judges the address as connections to object stores are judged.
"""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from datarecs_core.resources.object_urls import StoreKind, is_object_url
from datarecs_core.resources.store_servers import endpoint_fault
from datarecs_runtime.sections import Section


class Blob(Section):
    url: str = Field(pattern=r"^(file|s3|gs|az)://")
    """Place of the artefacts of runs: `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`
    or `az://container/prefix`. No default, because services with different places could not read
    each other's artefacts."""
    endpoint: str | None = Field(default=None, pattern=r"^https?://[^/@?#]+(/[A-Za-z0-9-]+)?$")
    """Address of the object store. Not set: the provider's."""
    ca_file: Path | None = None
    """Certificate authority of the object store, PEM. Not set: the system's store."""
    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]{1,64}$")
    """Region of an S3 bucket. Not set: that of AWS_REGION, or us-east-1."""
    credentials: SecretStr | None = None
    """S3: `<access key id>:<secret access key>`; Google: the JSON key of a service account; Azure:
    the account key or a SAS token. Not set: the identity of the machine or its environment."""

    @model_validator(mode="after")
    def _endpoint_is_a_server(self) -> Self:
        if self.endpoint is not None and is_object_url(self.url):
            fault = endpoint_fault(StoreKind(self.url.partition(":")[0]), self.endpoint)
            if fault is not None:
                raise ValueError(fault)
        return self

    def store_options(self) -> dict[str, str | None]:
        """The settings beside the address, as arguments; the secret is plain text."""
        secret = self.credentials
        return {
            "endpoint": self.endpoint,
            "region": self.region,
            "ca_file": str(self.ca_file) if self.ca_file else None,
            "credentials": secret.get_secret_value() if secret else None,
        }

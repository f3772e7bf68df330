"""Bodies that are signed instead of sent with a key: Standard Webhooks 1.0, scheme v1.

The signature is verified over the bytes, before anything in them is read.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Request
from pydantic import BaseModel

from datarecs_core.webhooks.signature import signature_fault
from datarecs_core_api.audit import address_of
from datarecs_core_api.auth import authenticator
from datarecs_core_api.body import JSON, parse_object, read_bytes
from datarecs_core_api.inputs import validated

M = TypeVar("M", bound=BaseModel)
MAX_BYTES = 16 * 1024
_NOT_SET_UP = "this server accepts no reports: DATARECS_MAIL_REPORTS__SECRET is not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedReport(Generic[M]):
    """A body with a valid signature."""

    value: M
    report_id: str
    """`webhook-id`: the same for every copy of the report."""
    request_id: str
    address: str


class SignedBody(Generic[M]):
    """Dependency of a `SignedRoute`: 401 without a valid signature, 429 after many of them."""

    def __init__(self, model: type[M]) -> None:
        self.model = model

    async def __call__(self, request: Request) -> SignedReport[M]:
        raw = await read_bytes(request, limit=MAX_BYTES, media=(JSON,))
        fault = self._fault(request, raw)
        if fault is not None:
            raise authenticator(request).failure(request, reason="signature", detail=fault)
        return SignedReport(
            value=validated(self.model, parse_object(raw)),
            report_id=request.headers["webhook-id"],
            request_id=request.state.request_id,
            address=address_of(request),
        )

    def _fault(self, request: Request, raw: bytes) -> str | None:
        ports = request.app.state.ports
        if ports.mail_report_key is None:
            return _NOT_SET_UP
        return signature_fault(
            request.headers, raw, key=ports.mail_report_key, now=ports.clock.now()
        )

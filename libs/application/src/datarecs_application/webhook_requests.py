"""A leased delivery as one complete request: URL, headers, signature, and what may be shown of it.

Outside any transaction, because secrets are opened here. Separate from the loop, which only carries
the request to the client.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from datarecs_application.ports.delivery import OutgoingWebhook, Ticket, WebhookAttempt
from datarecs_application.ports.outside import SecretStore
from datarecs_application.webhook_consent import ConsentRequest
from datarecs_application.webhooks import Leased
from datarecs_core.access.references import SecretPurpose, SecretUse, normal_host
from datarecs_core.errors.security import (
    SecretRefusedError,
    SecretTamperedError,
    SecretUnavailableError,
)
from datarecs_core.values import TenantId
from datarecs_core.webhooks.endpoint import SecretRef, SigningMode, WebhookEndpoint
from datarecs_core.webhooks.handshake import needs_consent, request_headers
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_core.webhooks.payload import payload
from datarecs_core.webhooks.shown import event_url, shown_request, shown_url
from datarecs_core.webhooks.signature import secret_context, secret_key, sign

CALLBACK_PATH = "/api/v1/public/webhook-consent/"
_SENDABLE = re.compile(r"[\x20-\x7e]{1,8192}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request and the row of the log that its end will complete."""

    request: OutgoingWebhook
    log: WebhookAttempt
    event_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprepared:
    """Why nothing can be sent: a secret that is not available."""

    end: AttemptEnd
    log: WebhookAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMaker:
    """Makes requests; holds no secret between two calls."""

    secrets: SecretStore
    user_agent: str
    child_trace: Callable[[str | None], str]
    """A traceparent for this attempt, in the trace of the event."""
    base_url: str
    """URL of the platform without a trailing slash; receivers call it back."""

    @property
    def origin(self) -> str:
        """The sender in requests for consent: the host of the platform."""
        return urlsplit(self.base_url).hostname or ""

    def consent(self, request: ConsentRequest) -> OutgoingWebhook | None:
        """OPTIONS to the endpoint's URL, without credentials; None if the URL is unavailable."""
        try:
            url = self._url(request.spec, request.tenant_id)
        except (SecretRefusedError, SecretUnavailableError, ValueError):
            return None
        callback = f"{self.base_url}{CALLBACK_PATH}{request.token.text()}"
        headers = request_headers(request.handshake, origin=self.origin, callback=callback)
        common = {"User-Agent": self.user_agent, "Accept-Encoding": "identity"}
        return OutgoingWebhook(
            ticket=Ticket(
                tenant_id=request.tenant_id,
                endpoint_uid=request.endpoint_uid,
                key=None,
                attempt_no=0,
                # Separates answers of an old URL from answers of the new one.
                lease_epoch=int(request.handshake.sent_at.timestamp() * 1_000_000),
            ),
            method="OPTIONS",
            url=url,
            headers=tuple((common | dict(headers)).items()),
            body=b"",
            timeout=request.spec.timeout,
        )

    def prepare(self, leased: Leased, *, since_lease: timedelta) -> Prepared | Unprepared:
        """Sign and assemble one attempt.

        Args:
            leased: with its message and sealed secrets.
            since_lease: monotonic time since the lease's transaction; the timestamp is database
                time plus this, never the worker's clock.
        """
        try:
            return self._prepared(leased, since_lease)
        except (SecretRefusedError, SecretUnavailableError, SecretTamperedError) as cause:
            return _unprepared(leased, cause.code.name)
        except ValueError:
            return _unprepared(leased, "MALFORMED_SECRET")

    def _prepared(self, leased: Leased, since_lease: timedelta) -> Prepared:
        spec, delivery = leased.spec, leased.delivery
        tenant = delivery.tenant_id
        url = self._url(spec, tenant)
        host = normal_host(urlsplit(url).hostname or "")
        keys = self._keys(leased, host)
        body = payload(leased.message, spec.format)
        timestamp = int((leased.leased_at + since_lease).timestamp())
        event_id = str(delivery.event_id)
        trace = self.child_trace(leased.message.attributes.get("traceparent"))
        signature = sign(
            [key for _, key in keys], event_id=event_id, timestamp=timestamp, body=body.body
        )
        headers = (
            ("Content-Type", body.content_type),
            ("User-Agent", self.user_agent),
            ("Accept-Encoding", "identity"),
            ("webhook-id", event_id),
            ("webhook-timestamp", str(timestamp)),
            ("webhook-signature", signature),
            ("datarecs-delivery", str(delivery.delivery_id)),
            ("datarecs-attempt", str(delivery.attempt_no)),
            ("datarecs-reason", delivery.origin.value),
            ("traceparent", trace),
            *((("WebHook-Request-Origin", self.origin),) if needs_consent(spec) else ()),
            *body.headers,
            *self._declared_headers(leased, tenant, host),
        )
        secret_url = spec.url is None
        secret_names = {name for name, value in spec.headers.items() if not isinstance(value, str)}
        return Prepared(
            request=OutgoingWebhook(
                ticket=_ticket(leased),
                url=url,
                headers=headers,
                body=body.body,
                timeout=spec.timeout,
            ),
            log=_log(
                leased,
                trace_id=trace.split("-")[1],
                url=shown_url(url, secret=secret_url),
                request_headers=shown_request(headers, secret_names=secret_names),
                body_sha256=hashlib.sha256(body.body).hexdigest(),
                key_ids=tuple(key_id for key_id, _ in keys),
            ),
            event_url=event_url(url, secret=secret_url),
        )

    def _url(self, spec: WebhookEndpoint, tenant: TenantId) -> str:
        if spec.url is not None:
            return spec.url
        if spec.url_from is None:
            raise ValueError("an endpoint has a URL or a reference to one")
        use = SecretUse(purpose=SecretPurpose.URL)
        return self._resolved(spec.url_from, tenant, use)

    def _keys(self, leased: Leased, host: str) -> list[tuple[str, bytes]]:
        """Key ids and keys that are live now, current first; at least one, or ValueError."""
        delivery, signing = leased.delivery, leased.spec.signing
        if signing.mode is SigningMode.REFERENCE:
            use = SecretUse(purpose=SecretPurpose.SIGNING, host=host)
            named = [
                (
                    f"ref-{index}",
                    self.secrets.resolve(reference, tenant=delivery.tenant_id, uses=(use,)),
                )
                for index, reference in enumerate(signing.secret_refs)
            ]
        else:
            named = [
                (key_id, self._opened(leased, key_id, sealed)) for key_id, sealed in leased.secrets
            ]
        if not named:
            raise ValueError("an attempt is never sent unsigned")
        return [(key_id, secret_key(text)) for key_id, text in named]

    def _opened(self, leased: Leased, key_id: str, sealed: bytes) -> str:
        delivery = leased.delivery
        context = secret_context(delivery.tenant_id, delivery.endpoint_uid, key_id)
        return self.secrets.open(sealed, context=context).decode()

    def _declared_headers(
        self, leased: Leased, tenant: TenantId, host: str
    ) -> tuple[tuple[str, str], ...]:
        spec = leased.spec
        use = SecretUse(purpose=SecretPurpose.WEBHOOK, host=host)
        bearer = (
            (("Authorization", f"Bearer {self._resolved(spec.auth.bearer, tenant, use)}"),)
            if spec.auth
            else ()
        )
        return (
            *bearer,
            *_resolved_all(spec.headers, lambda ref: self._resolved(ref, tenant, use)),
        )

    def _resolved(self, reference: SecretRef, tenant: TenantId, use: SecretUse) -> str:
        value = self.secrets.resolve(reference.secret_ref, tenant=tenant, uses=(use,))
        if not _SENDABLE.fullmatch(value):
            raise ValueError(
                "a referenced value contains characters that a header or URL may not contain"
            )
        return value


def _resolved_all(
    headers: Mapping[str, str | SecretRef], resolve: Callable[[SecretRef], str]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value if isinstance(value, str) else resolve(value))
        for name, value in headers.items()
    )


def _ticket(leased: Leased) -> Ticket:
    delivery = leased.delivery
    return Ticket(
        tenant_id=delivery.tenant_id,
        endpoint_uid=delivery.endpoint_uid,
        key=leased.key,
        attempt_no=delivery.attempt_no,
        lease_epoch=delivery.lease_epoch,
    )


def _log(leased: Leased, **known: object) -> WebhookAttempt:
    delivery = leased.delivery
    return WebhookAttempt(
        key=leased.key,
        attempt_no=delivery.attempt_no,
        lease_epoch=delivery.lease_epoch,
        worker=delivery.lease_owner or "",
        reason=delivery.origin.value,
        started_at=leased.leased_at,
        **known,  # type: ignore[arg-type]  # the fields named by the caller above
    )


def _unprepared(leased: Leased, why: str) -> Unprepared:
    end = AttemptEnd(outcome=Outcome.SECRET_UNAVAILABLE, error=why)
    return Unprepared(end=end, log=_log(leased, error=why, outcome=Outcome.SECRET_UNAVAILABLE))

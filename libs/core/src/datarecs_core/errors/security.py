"""DR6: what security rules refuse, and its exceptions.

A separate family because rule, adapter and REST border raise and map the same codes. Messages
name classes and rules, never an address a name resolved to and never a secret.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class SecurityCode(ErrorCode):
    """Refusals that protect tenants, secrets and the network around the platform."""

    URL_REFUSED = Entry(
        docs_id="DR6001",
        meaning="The platform may not call this URL or host.",
        causes="Another scheme than https, a port that is not allowed, user information, a "
        "fragment, odd characters, a number in place of a name, an internal name or address.",
        remedy="Use a public https URL on port 443 or 8443; the operator can allow more ports, "
        "hosts and private networks (DATARECS_EGRESS__…).",
    )
    BLOCKED_ADDRESS = Entry(
        docs_id="DR6002",
        meaning="A name resolves to an address to which connections are not allowed.",
        causes="The name points into a private, local or reserved network; one such address "
        "among several is enough.",
        remedy="Correct the name's DNS entry, or ask the operator to allow its network in "
        "DATARECS_EGRESS__ALLOWED_CIDRS__WEBHOOK or __CONNECTION.",
    )
    SECRET_REFUSED = Entry(
        docs_id="DR6003",
        meaning="The tenant may not use a secret reference, or the operator does not allow sending "
        "the secret to this destination.",
        causes="`env:` without the tenant's prefix, `file:` outside the tenant's secret folder, a "
        "kind of reference that does not exist, or no binding to this purpose and host.",
        remedy="Use `env:` with the tenant's prefix (DATARECS_CONN_<TENANT>_…) or `file:` below "
        "the tenant's folder; ask the operator to bind it to purpose and host in "
        "DATARECS_SECRETS__USES.",
    )
    SECRET_UNAVAILABLE = Entry(
        docs_id="DR6004",
        meaning="An allowed secret reference has no value.",
        causes="The variable is not set in the service that needs it, the file is missing, empty "
        "or unreadable, or no key-encryption key is configured.",
        remedy="Set the variable or file for the worker and the webhook-service, then repeat.",
        retryable=True,
    )
    SECRET_TAMPERED = Entry(
        docs_id="DR6005",
        meaning="A stored secret cannot be decrypted.",
        causes="Bytes were altered or moved to another tenant, resource or field, an older value "
        "was restored, or the key-encryption key is a different one.",
        remedy="Restore the row or the key with this id; otherwise rotate the secret. Check the "
        "audit log: this does not happen by accident.",
    )
    KEY_IN_URL = Entry(
        docs_id="DR6010",
        meaning="An API key is in a URL, where logs and histories store it.",
        causes="A key sent as a query parameter.",
        remedy="Revoke that key, make a new one, send it as `Authorization: Bearer`.",
    )
    UNAUTHENTICATED = Entry(
        docs_id="DR6011",
        meaning="The request has no valid credential.",
        causes="No key, a wrong, expired or revoked one; the response is the same for all.",
        remedy="Send a valid key as `Authorization: Bearer`; `datarecs key create` makes one.",
    )
    FORBIDDEN = Entry(
        docs_id="DR6012",
        meaning="The principal may see the object but has no permission for this operation.",
        causes="A role or key scope without the permission that the message names.",
        remedy="Ask an admin of the tenant for the role, or use a key with that scope.",
    )
    QUOTA_EXCEEDED = Entry(
        docs_id="DR6029",
        meaning="A limit of the tenant is reached.",
        causes="Runs of a job or of the tenant that wait for their start, captures that have not "
        "ended, or too many jobs, connections, schedules, webhook endpoints, notification rules or "
        "captures.",
        remedy="Wait until runs have started or captures have ended, or delete what is not needed; "
        "the operator can raise the limit (DATARECS_LIMITS__…).",
        retryable=True,
    )


class QuotaExceededError(DatarecsError):
    """One more would exceed the limit of the tenant; nothing was written."""

    code = SecurityCode.QUOTA_EXCEEDED

    def __init__(self, *, what: str, most: int) -> None:
        super().__init__(f"the limit of {most} {what} is reached")
        self.what, self.most = what, most


class UrlRefusedError(DatarecsError):
    """A URL or host that is not well formed for its purpose; the text itself is not repeated."""

    code = SecurityCode.URL_REFUSED

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"the address is refused: {reason}")
        self.reason = reason


class AddressBlockedError(DatarecsError):
    """A name with at least one address that is not allowed; only the class is shown."""

    code = SecurityCode.BLOCKED_ADDRESS

    def __init__(self, *, address_class: str) -> None:
        super().__init__(
            f"the name resolves to an address of class {address_class}; connections to it are not "
            "allowed"
        )
        self.address_class = address_class


class SecretRefusedError(DatarecsError):
    """A reference the tenant may not use; nothing was read."""

    code = SecurityCode.SECRET_REFUSED

    def __init__(self, *, kind: str, rule: str) -> None:
        super().__init__(f"the secret reference of kind {kind!r} is refused: {rule}")
        self.kind, self.rule = kind, rule


class SecretUnavailableError(DatarecsError):
    """An allowed reference without a value. The name is shown, it is not a secret."""

    code = SecurityCode.SECRET_UNAVAILABLE

    def __init__(self, *, reference: str, cause: str) -> None:
        super().__init__(f"the secret {reference} cannot be read: {cause}")
        self.reference, self.cause = reference, cause


class SecretTamperedError(DatarecsError):
    """An envelope that cannot be decrypted in this context; raise an alert, do not retry."""

    code = SecurityCode.SECRET_TAMPERED

    def __init__(self, *, key_id: str | None, cause: str) -> None:
        sealed_by = f"sealed under key {key_id!r}" if key_id else "not an envelope"
        super().__init__(f"a stored secret cannot be decrypted ({sealed_by}): {cause}")
        self.key_id, self.cause = key_id, cause

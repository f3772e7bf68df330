"""What a person does to an endpoint beside its spec: rotate its secret, switch it off and on again.

Separate from `webhook_actions`, because these change the endpoint itself and make no deliveries.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from datarecs_application.ports.sealing import SecretLabel
from datarecs_application.ports.state import Transaction
from datarecs_application.resources import Making, is_signing_managed, store_secret
from datarecs_application.webhook_actions import count_window
from datarecs_core.resources.resource import Resource
from datarecs_core.webhooks.actions import MAX_MESSAGES, MAX_WINDOW, Window
from datarecs_core.webhooks.endpoint import MAX_SECRET_REFS
from datarecs_core.webhooks.health import Disabled, DisabledBy, cleared
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.refusals import (
    SecretNotManagedError,
    TooManyMessagesError,
    TooManySecretsError,
)
from datarecs_core.webhooks.signature import GENERATED_BYTES, SECRET_FIELD, new_secret

MAX_GRACE = timedelta(days=7)
MAX_SECRETS = MAX_SECRET_REFS
"""Live secrets of one endpoint: as many as references."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    secret: str
    """The new one; shown once."""
    key_id: str
    previous: tuple[SecretLabel, ...]
    """Those that still sign, newest first."""


def rotate_secret(
    tx: Transaction,
    endpoint: Resource,
    *,
    grace: timedelta,
    making: Making,
    imported: str | None = None,
) -> Rotated:
    """Sign with a new secret at once; older ones sign until their grace ends.

    Args:
        tx: holds the lock of the endpoint's row.
        endpoint: with managed signing.
        grace: how long the current secret still signs; zero ends every older one now.
        making: seals and draws random bytes.
        imported: a well-formed secret to use; a generated one without it.

    Raises:
        SecretNotManagedError: the endpoint signs with references.
        TooManySecretsError: a fifth secret would sign.
    """
    if not is_signing_managed(endpoint):
        raise SecretNotManagedError(endpoint=endpoint.name)
    older = tx.secrets.labels(endpoint.uid, SECRET_FIELD)
    if grace and len(older) >= MAX_SECRETS:
        raise TooManySecretsError(endpoint=endpoint.name, most=MAX_SECRETS)
    ends = tx.now + grace
    for label in older:
        if label.expires_at is None or label.expires_at > ends:
            tx.secrets.expire(endpoint.uid, SECRET_FIELD, label.key_id, ends)
    secret = imported or new_secret(making.random_bytes(GENERATED_BYTES))
    key_id = store_secret(tx, endpoint, secret, making=making)
    live = tx.secrets.labels(endpoint.uid, SECRET_FIELD)
    previous = tuple(one for one in live if one.key_id != key_id)
    return Rotated(secret=secret, key_id=key_id, previous=previous)


def record_disabled(tx: Transaction, endpoint: Resource) -> None:
    """Store when a person disabled the endpoint; its spec has it already."""
    (state,) = tx.deliveries.states([endpoint.uid])
    disabled = Disabled(by=DisabledBy.USER, at=tx.now, generation=endpoint.generation)
    tx.deliveries.save_state(replace(state, disabled=disabled, next_claim_at=tx.now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabled:
    missed_since: datetime
    """From when on events were missed, at most 14 days ago."""
    recoverable: int
    """Events that a recover since then would send, counted up to 100,000."""


def record_enabled(tx: Transaction, endpoint: EndpointFacts) -> Enabled:
    """Clear what failures have left, and count what was missed while the endpoint was off."""
    (state,) = tx.deliveries.states([endpoint.uid])
    earliest = tx.now - MAX_WINDOW
    disabled_at = state.disabled.at if state.disabled else earliest
    since = max(earliest, endpoint.created_at, disabled_at)
    tx.deliveries.save_state(replace(cleared(state), next_claim_at=tx.now))
    window = Window(since=since, until=tx.now, only_missing=True)
    try:
        count = count_window(tx, endpoint, window)
    except TooManyMessagesError:
        count = MAX_MESSAGES
    return Enabled(missed_since=since, recoverable=count)

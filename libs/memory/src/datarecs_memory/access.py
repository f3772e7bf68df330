"""Twin of keys, tickets, stored answers and the audit chain."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.state import AuditEntry, KeyUse, StoredAnswer
from datarecs_application.ports.tickets import SocketTicket
from datarecs_core.access.audit import FIRST_PREV_HASH, AuditRow, ChainedRow, audit_hash
from datarecs_memory.scope import Scope
from datarecs_memory.store import RememberedKey

LIFETIME = timedelta(hours=24)


class MemoryApiKeys:
    """Port ApiKeys."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def add(self, key: ApiKey) -> None:
        if key.tenant_id != self._scope.tenant_id:
            raise ValueError("a key is added in a transaction of its own tenant")
        self._scope.state.api_keys[key.key_id] = key

    def for_update(self, key_id: str) -> ApiKey | None:
        return self._scope.state.api_keys.get(key_id)

    def revoke(self, key_id: str) -> tuple[str, ...]:
        keys, now = self._scope.state.api_keys, self._scope.store.clock.now()
        revoked = [key.key_id for key in self.family(key_id) if key.revoked_at is None]
        for one in revoked:
            keys[one] = replace(keys[one], revoked_at=now)
        return tuple(revoked)

    def family(self, key_id: str) -> list[ApiKey]:
        members, added = set[str](), {key_id}
        while added:
            members |= added
            added = {key.key_id for key in self.all() if key.parent_id in added}
        return [key for key in self.all() if key.key_id in members]

    def all(self) -> list[ApiKey]:
        keys = sorted(self._scope.state.api_keys.values(), key=lambda key: key.key_id)
        return sorted(keys, key=lambda key: key.created_at, reverse=True)


class MemorySocketTickets:
    """Port SocketTickets."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def add(self, ticket: SocketTicket) -> None:
        tickets = self._scope.state.tickets
        for expired in [one for one in tickets.values() if not self._is_good(one)]:
            del tickets[expired.ticket_sha256]
        tickets[ticket.ticket_sha256] = ticket

    def take(self, ticket_sha256: bytes) -> SocketTicket | None:
        ticket = self._scope.state.tickets.pop(ticket_sha256, None)
        return ticket if ticket is not None and self._is_good(ticket) else None

    def _is_good(self, ticket: SocketTicket) -> bool:
        return ticket.expires_at > self._scope.store.clock.now()


class MemoryIdempotencyKeys:
    """Port IdempotencyKeys. Transactions run one after another, so none waits for a key."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def take(
        self, *, principal: str, route: str, key: str, request_hash: bytes
    ) -> tuple[KeyUse, StoredAnswer | None]:
        remembered = self._scope.state.remembered.get((principal, route, key))
        oldest = self._scope.now - LIFETIME
        if remembered is None or remembered.answer is None or remembered.created_at <= oldest:
            self._scope.state.remembered[principal, route, key] = RememberedKey(
                request_hash=request_hash, created_at=self._scope.now
            )
            return KeyUse.NEW, None
        if remembered.request_hash != request_hash:
            return KeyUse.MISMATCH, None
        return KeyUse.REPLAY, remembered.answer

    def store(self, *, principal: str, route: str, key: str, answer: StoredAnswer) -> None:
        where = (principal, route, key)
        remembered = self._scope.state.remembered[where]
        self._scope.state.remembered[where] = replace(remembered, answer=answer)


class MemoryAudit:
    """Port Audit."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def append(self, entry: AuditEntry) -> None:
        chain = self._scope.state.audit
        prev_hash = chain[-1].hash if chain else FIRST_PREV_HASH
        detail: Any = entry.detail
        row = AuditRow(
            tenant_id=self._scope.tenant_id,
            seq=len(chain) + 1,
            at=self._scope.now,
            actor=entry.actor,
            actor_kind=entry.actor_kind,
            action=entry.action,
            resource_kind=entry.resource_kind,
            resource_uid=entry.resource_uid,
            before_sha256=entry.before_sha256,
            after_sha256=entry.after_sha256,
            request_id=entry.request_id,
            address=entry.address,
            outcome=entry.outcome,
            detail=detail,
        )
        link = ChainedRow(row=row, prev_hash=prev_hash, hash=audit_hash(row, prev_hash))
        self._scope.state.audit = (*chain, link)

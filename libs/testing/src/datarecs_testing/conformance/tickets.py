"""Conformance suite of SocketTickets: a ticket works once, for a short time, by its hash."""

from datetime import timedelta

import pytest

from datarecs_application.ports.tickets import SocketTicket
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.conformance.stores import Stores, carry_out

HASH = bytes(range(32))
LASTS = timedelta(seconds=30)


def issue(stores: Stores, sha256: bytes = HASH, tenant: TenantId = A_TENANT) -> SocketTicket:
    with stores.api.unit.begin(tenant) as tx:
        ticket = SocketTicket(ticket_sha256=sha256, key_id="k", expires_at=tx.now + LASTS)
        tx.tickets.add(ticket)
    return ticket


def take(stores: Stores, sha256: bytes = HASH, tenant: TenantId = A_TENANT) -> SocketTicket | None:
    return carry_out(stores.api.unit, tenant, lambda tx: tx.tickets.take(sha256), feed=0)


class SocketTicketsConformance:
    @pytest.mark.case("X19")
    def test_a_ticket_is_taken_once(self, stores: Stores) -> None:
        ticket = issue(stores)
        assert take(stores) == ticket
        assert take(stores) is None

    @pytest.mark.case("X19")
    def test_an_expired_ticket_lets_nobody_in(self, stores: Stores) -> None:
        issue(stores)
        stores.pass_time(LASTS)
        assert take(stores) is None

    def test_an_unknown_ticket_lets_nobody_in(self, stores: Stores) -> None:
        issue(stores)
        assert take(stores, bytes(32)) is None

    def test_a_ticket_that_was_not_used_after_all_is_good_again(self, stores: Stores) -> None:
        issue(stores)

        def fail() -> None:
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.tickets.take(HASH)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert take(stores) is not None

    def test_its_tenant_is_resolved_before_one_is_known(self, stores: Stores) -> None:
        issue(stores, tenant=B_TENANT)
        assert stores.api.finder.resolve_session(HASH) == B_TENANT
        assert stores.api.finder.resolve_session(bytes(32)) is None

    @pytest.mark.case("X03")
    def test_a_ticket_of_b_is_none_of_a(self, stores: Stores) -> None:
        issue(stores, tenant=B_TENANT)
        assert take(stores, tenant=A_TENANT) is None
        assert take(stores, tenant=B_TENANT) is not None

    def test_expired_tickets_go_when_the_next_is_made(self, stores: Stores) -> None:
        issue(stores)
        stores.pass_time(LASTS)
        issue(stores, bytes(32))
        assert stores.api.finder.resolve_session(HASH) is None
        assert take(stores, bytes(32)) is not None

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_cli.stack.failures import PortBusyError
from datarecs_cli.stack.ports import SPAN, Claims, PortWish, assign, next_free

WISHES = (
    PortWish(name="api", default=8080),
    PortWish(name="postgres", default=54_329),
    PortWish(name="kafka", default=29_092),
    PortWish(name="kafka controller", default=29_093),
)


@pytest.mark.case("K15")
def test_busy_default_ports_move_to_the_next_free_ones() -> None:
    busy = {8080, 8081, 54_329, 29_092}
    assigned_ports = assign(WISHES, {}, free=lambda port: port not in busy)
    assert assigned_ports == {
        "api": 8082,
        "postgres": 54_330,
        "kafka": 29_093,
        "kafka controller": 29_094,
    }


@pytest.mark.case("K15")
def test_a_port_that_moved_once_is_reused_at_restart() -> None:
    assert assign(WISHES[:1], {"api": 8091}, free=lambda _: True) == {"api": 8091}


def test_a_remembered_port_that_is_busy_now_is_forgotten() -> None:
    assert assign(WISHES[:1], {"api": 8091}, free=lambda port: port != 8091) == {"api": 8080}


@pytest.mark.case("K15")
@pytest.mark.case("K50")
def test_a_named_port_never_moves() -> None:
    named = PortWish(name="api", default=8080, named=8085)
    with pytest.raises(PortBusyError) as refused:
        assign([named], {"api": 8090}, free=lambda port: port != 8085)
    assert (refused.value.port, refused.value.part) == (8085, "api")


def test_a_full_span_is_an_error_and_not_a_longer_search() -> None:
    with pytest.raises(PortBusyError):
        assign(WISHES[:1], {}, free=lambda port: port > 8080 + SPAN)


@given(st.sets(st.integers(8080, 8080 + 2 * SPAN)), st.integers(8080, 8080 + SPAN))
def test_the_next_free_port_is_the_first_that_is_neither_busy_nor_assigned(
    busy: set[int], first: int
) -> None:
    port = next_free(first, free=lambda port: port not in busy)
    free = [port for port in range(first, first + SPAN + 1) if port not in busy]
    assert port == (free[0] if free else None)


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="claims are Linux's")
def test_two_platforms_that_start_at_once_never_get_the_same_port() -> None:
    first, second = Claims(), Claims()
    port = next_free(40_000, free=first.take)
    assert port is not None
    assert not second.take(port), "nobody listens there yet, and yet it is given"
    first.release()
    assert second.take(port)
    second.release()

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.egress.addresses import (
    TABLE,
    Address,
    AddressClass,
    Network,
    Opener,
    Policy,
    Profile,
    Purpose,
    Row,
    admit,
    judge,
)
from datarecs_core.errors.security import AddressBlockedError

CLOSED, OPEN = False, True

# Spec security 8, once more by hand: class, ranges, webhook, connection, and in profile `local`.
EXPECTED = (
    ("unspecified", ("0.0.0.0/8", "::/128"), CLOSED, CLOSED, CLOSED, CLOSED),
    ("loopback", ("127.0.0.0/8", "::1/128"), CLOSED, CLOSED, OPEN, OPEN),
    ("link_local", ("169.254.0.0/16", "fe80::/10"), CLOSED, CLOSED, CLOSED, CLOSED),
    (
        "metadata",
        ("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"),
        *(CLOSED,) * 4,
    ),
    (
        "private",
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
        *(CLOSED, OPEN) * 2,
    ),
    ("shared", ("100.64.0.0/10",), *(CLOSED, OPEN) * 2),
    ("benchmarking", ("198.18.0.0/15",), *(CLOSED,) * 4),
    (
        "protocol",
        (
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.175.48.0/24",
            "192.88.99.0/24",
            "2001::/23",
            "2620:4f:8000::/48",
        ),
        *(CLOSED,) * 4,
    ),
    (
        "documentation",
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
        *(CLOSED,) * 4,
    ),
    ("reserved", ("224.0.0.0/4", "240.0.0.0/4", "ff00::/8"), *(CLOSED,) * 4),
    ("nat64", ("64:ff9b::/96", "64:ff9b:1::/48"), *(CLOSED,) * 4),
    (
        "embedded_ipv4",
        ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16"),
        *(CLOSED,) * 4,
    ),
    ("deprecated", ("fec0::/10", "3ffe::/16", "100::/64", "5f00::/16"), *(CLOSED,) * 4),
)
# The outer neighbours of every range, judged by hand for webhooks in profile `server`.
OPEN_NEIGHBOURS = frozenset(
    {"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"}
    | {"128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"}
    | {"191.255.255.255", "192.0.1.0", "192.0.1.255", "192.0.3.0"}
    | {"192.31.195.255", "192.31.197.0", "192.52.192.255", "192.52.194.0", "192.175.47.255"}
    | {"192.175.49.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0"}
    | {"198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255"}
    | {"203.0.114.0", "223.255.255.255", "168.63.129.15", "168.63.129.17"}
    | {"2001:200::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"}
    | {"2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2620:4f:7fff:ffff:ffff:ffff:ffff:ffff"}
    | {"2620:4f:8001::", "3ffd:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"}
    | {"2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"}
)


def a_policy(purpose: Purpose = Purpose.WEBHOOK, *, allowed: str = "", denied: str = "") -> Policy:
    return Policy(
        purpose=purpose,
        allowed_cidrs=tuple(map(ip_network, allowed.split())),
        denied_cidrs=tuple(map(ip_network, denied.split())),
    )


def ranges() -> list[Network]:
    return [ip_network(text) for _, texts, *_ in EXPECTED for text in texts]


def ends(network: Network) -> tuple[Address, Address]:
    return network[0], network[-1]


@pytest.mark.case("X43")
@pytest.mark.case("W17")
@pytest.mark.parametrize("row", EXPECTED, ids=[row[0] for row in EXPECTED])
def test_first_and_last_address_of_each_range_get_the_verdict_of_their_row(
    row: tuple[str, tuple[str, ...], bool, bool, bool, bool],
) -> None:
    address_class, texts, *verdicts = row
    policies = [
        Policy(purpose=purpose, profile=profile) for profile in Profile for purpose in Purpose
    ]
    for text in texts:
        for address in ends(ip_network(text)):
            judged = judge(address, policies[0])
            # A more special row of the table is inside some ranges.
            if judged.address_class == address_class:
                assert [judge(address, policy).allowed for policy in policies] == verdicts
            else:
                assert judged.allowed is False


@pytest.mark.case("W17")
def test_neighbours_outside_each_range_are_open_exactly_where_no_other_range_begins() -> None:
    opened = set()
    for network in ranges():
        for number in (int(network[0]) - 1, int(network[-1]) + 1):
            if 0 <= number <= int(ip_network(network).supernet(new_prefix=0)[-1]):
                address = type(network[0])(number)
                if judge(address, a_policy()).allowed:
                    opened.add(str(address))
    assert opened == OPEN_NEIGHBOURS


def test_each_row_of_the_code_is_a_row_of_the_spec() -> None:
    in_code = {
        (row.address_class.value, str(network))
        for row in TABLE
        for network in row.networks
        if network.prefixlen > 3  # the two catch-all rows
    }
    in_spec = {(row[0], str(ip_network(text))) for row in EXPECTED for text in row[1]}
    assert in_code == in_spec


@pytest.mark.case("W17")
@pytest.mark.case("X46")
@pytest.mark.parametrize(
    "text",
    [
        "100.100.100.200",
        "192.0.0.192",
        "2002:7f00:1::",
        "::127.0.0.1",
        "fec0::1",
        "168.63.129.16",
        "fd00:ec2::254",
        "fe80::1%eth0",
        "2a00::5efe:10.0.0.1",
        "2a00::200:5efe:8.8.8.8",
        "fd20:ce::254",
        "10.0.0.1%x",
    ],
)
def test_some_addresses_stay_closed_although_the_operator_names_them(text: str) -> None:
    everything = a_policy(Purpose.CONNECTION, allowed="0.0.0.0/0 ::/0")
    with pytest.raises(AddressBlockedError):
        admit([text], everything)


def test_the_operator_opens_private_shared_and_benchmarking_networks_by_cidr() -> None:
    policy = a_policy(allowed="10.1.0.0/16 100.64.0.0/10 198.18.0.0/16 fd12::/16")
    opened = ["10.1.2.3", "100.64.0.1", "198.18.0.1", "fd12::1"]
    shut = ["10.2.0.1", "198.19.0.1", "fd13::1"]
    assert [judge(ip_address(text), policy).allowed for text in (*opened, *shut)] == [
        *[True] * 4,
        *[False] * 3,
    ]


def test_the_platforms_addresses_win_over_what_is_allowed() -> None:
    policy = a_policy(Purpose.CONNECTION, allowed="10.0.0.0/8", denied="10.9.0.0/16 8.8.8.8/32")
    assert judge(ip_address("10.9.0.1"), policy).address_class is AddressClass.PLATFORM
    assert judge(ip_address("8.8.8.8"), policy).allowed is False
    assert judge(ip_address("10.8.0.1"), policy).allowed is True


@pytest.mark.case("X50")
def test_a_connection_reaches_the_platforms_addresses_in_profile_local_alone() -> None:
    platform_networks = ip_network("127.0.0.1/32"), ip_network("10.0.0.5/32")
    for text in ("127.0.0.1", "10.0.0.5"):
        verdicts = [
            judge(
                ip_address(text),
                Policy(purpose=purpose, profile=profile, denied_cidrs=platform_networks),
            )
            for profile in Profile
            for purpose in (Purpose.CONNECTION, Purpose.WEBHOOK)
        ]
        assert [verdict.allowed for verdict in verdicts] == [False, False, True, False]


# 8.8.8.8 and 127.0.0.1 behind a prefix of each length of RFC 6052, 2.4.
@pytest.mark.parametrize(
    ("prefix", "public", "inside"),
    [
        ("2a00:1::/32", "2a00:1:808:808::", "2a00:1:7f00:1::"),
        ("2a00:1:100::/40", "2a00:1:108:808:8::", "2a00:1:17f:0:1::"),
        ("2a00:1:122::/48", "2a00:1:122:808:8:800::", "2a00:1:122:7f00:0:100::"),
        ("2a00:1:122:300::/56", "2a00:1:122:308:8:808::", "2a00:1:122:37f:0:1::"),
        ("2a00:1:122:344::/64", "2a00:1:122:344:8:808:800::", "2a00:1:122:344:7f:0:100::"),
        ("64:ff9b::/96", "64:ff9b::808:808", "64:ff9b::7f00:1"),
    ],
)
def test_an_address_behind_a_declared_nat64_prefix_is_judged_by_the_ipv4_inside(
    prefix: str, public: str, inside: str
) -> None:
    policy = Policy(purpose=Purpose.WEBHOOK, nat64_prefixes=(IPv6Network(prefix),))
    assert judge(ip_address(public), policy).allowed is True
    assert judge(ip_address(inside), policy).address_class is AddressClass.LOOPBACK


def test_without_the_operators_prefix_a_nat64_address_is_closed() -> None:
    assert judge(ip_address("64:ff9b::808:808"), a_policy()).allowed is False


@pytest.mark.case("X45")
def test_one_closed_answer_among_open_ones_refuses_the_name() -> None:
    with pytest.raises(AddressBlockedError) as refusal:
        admit(["93.184.216.34", "10.0.0.1"], a_policy())
    assert refusal.value.address_class == "private"
    assert "10.0.0.1" not in str(refusal.value)


def test_answers_preserve_their_order_and_are_returned_once() -> None:
    answers = ["2606:4700::1111", "1.1.1.1", "2606:4700::1111"]
    assert [str(address) for address in admit(answers, a_policy())] == answers[:2]


@pytest.mark.parametrize("answers", [[], ["nonsense"], ["127.1"]])
def test_no_answer_or_an_unreadable_one_is_a_refusal(answers: list[str]) -> None:
    with pytest.raises(AddressBlockedError):
        admit(answers, a_policy())


@given(st.ip_addresses())
def test_whatever_the_address_the_connection_policy_opens_at_least_what_the_webhook_one_does(
    address: IPv4Address | IPv6Address,
) -> None:
    webhook = judge(address, a_policy(Purpose.WEBHOOK)).allowed
    assert judge(address, a_policy(Purpose.CONNECTION)).allowed >= webhook


def test_no_class_is_both_open_by_default_and_never_to_be_opened() -> None:
    odd = [row for row in TABLE if row.open_to and row.opener is Opener.LOCAL]
    assert odd == list[Row]()

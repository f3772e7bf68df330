import pytest

from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.egress.urls import Target, UrlRules, check_endpoint, check_url
from datarecs_core.errors.security import SecurityCode, UrlRefusedError


def rules(profile: Profile = Profile.SERVER, *, hosts: str = "", ports: str = "") -> UrlRules:
    return UrlRules(
        policy=Policy(purpose=Purpose.WEBHOOK, profile=profile),
        allowed_hosts=frozenset(hosts.split()),
        allowed_ports=frozenset(map(int, ports.split())),
    )


@pytest.mark.case("W16")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "https://2130706433/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://localhost./",
        "https://a@b/",
        "https://127.0.0.1\\@example.com/",
        "https://example.com:6379/",
    ],
)
def test_urls_that_lead_inside_or_hide_where_they_lead_are_refused(url: str) -> None:
    with pytest.raises(UrlRefusedError) as refusal:
        check_url(url, rules())
    assert refusal.value.code is SecurityCode.URL_REFUSED
    assert url not in str(refusal.value)


@pytest.mark.case("X44")
@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "0x7f.1",
        "017700000001",
        "127.1",
        "0",
        "localhost.",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "[::1%25lo]",
    ],
)
def test_this_machine_is_recognised_however_it_is_spelled(host: str) -> None:
    with pytest.raises(UrlRefusedError):
        check_url(f"https://{host}/hook", rules())


@pytest.mark.case("X48")
@pytest.mark.parametrize(
    "url",
    [
        "https://a@b",
        "https://u:p@example.com/",
        "https://127.0.0.1\\@example.com",
        "https://example.com:22/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "https://example.com/a\nb",
        "//example.com/",
        "https://example.com/\t",
        "https://example.com/#top",
        "https://example.com/\u202e",
        "https:///path",
        "https://exa mple.com/",
        "https://-a.example/",
        "https://a..example/",
        "https://[not-six]/",
        "https://straße.example/",
        f"https://{'a' * 64}.example/",
    ],
)
def test_malformed_urls_and_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(UrlRefusedError):
        check_url(url, rules())


@pytest.mark.parametrize(
    "host",
    [
        "intranet",
        "x.localhost",
        "x.local",
        "db.internal",
        "nas.home.arpa",
        "api.default.svc",
        "api.default.svc.cluster.local",
    ],
)
def test_names_of_the_inner_network_need_the_operator(host: str) -> None:
    with pytest.raises(UrlRefusedError):
        check_url(f"https://{host}/", rules())
    assert check_url(f"https://{host}/", rules(hosts=host)).host == host


def test_a_url_of_2048_characters_passes_and_one_more_does_not() -> None:
    longest = "https://example.com/".ljust(2048, "x")
    assert check_url(longest, rules()).path == longest.removeprefix("https://example.com")
    with pytest.raises(UrlRefusedError):
        check_url(longest + "x", rules())


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (
            "https://Hooks.Example.com./a//b;c?q=1&r=%20",
            Target(scheme="https", host="hooks.example.com", port=443, path="/a//b;c?q=1&r=%20"),
        ),
        (
            "https://bücher.example:8443",
            Target(scheme="https", host="xn--bcher-kva.example", port=8443, path="/"),
        ),
        (
            "https://[2606:4700::1111]/ü",
            Target(scheme="https", host="2606:4700::1111", port=443, path="/%C3%BC"),
        ),
        ("https://1.1.1.1/", Target(scheme="https", host="1.1.1.1", port=443, path="/")),
    ],
)
def test_a_good_url_comes_back_in_the_parts_that_will_be_called(url: str, target: Target) -> None:
    assert check_url(url, rules()) == target


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://example.com:8443/a?b", "https://[2606:4700::1111]/"]
)
def test_the_parts_make_the_url_again(url: str) -> None:
    assert check_url(url, rules()).url == url


def test_profile_local_permits_http_any_port_and_this_machine() -> None:
    local = rules(Profile.LOCAL)
    for url in ("http://localhost:9000/", "http://127.0.0.1:9000/", "http://[::1]:9000/"):
        assert check_url(url, local).url == url
    with pytest.raises(UrlRefusedError):
        check_url("http://10.0.0.1:9000/", local)


def test_the_operator_can_allow_a_port() -> None:
    assert check_url("https://example.com:9443/", rules(ports="9443")).port == 9443


@pytest.mark.case("X50")
@pytest.mark.parametrize("port", [22, 80, 1023, 2375, 2376, 2379, 2380, 6443, 10250, 10255, 65536])
def test_a_connection_may_not_use_control_and_system_ports(port: int) -> None:
    with pytest.raises(UrlRefusedError):
        check_endpoint("db.internal", port, rules())


@pytest.mark.parametrize(("host", "port"), [("db", 5432), ("DB.internal.", 443), ("db", 1024)])
def test_a_connection_may_use_inner_names(host: str, port: int) -> None:
    assert check_endpoint(host, port, rules()) == host.lower().rstrip(".")


def test_a_connection_to_a_closed_literal_address_is_refused_at_once() -> None:
    with pytest.raises(UrlRefusedError):
        check_endpoint("127.0.0.1", 5432, rules())

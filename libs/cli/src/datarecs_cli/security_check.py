"""`datarecs doctor --security SERVICE`: the rules of profile `server`, without a start.

The settings are those of the service, so the command runs in its environment. Steps about the API
send requests without a key to the base URL. Nothing is changed.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from datarecs_cli.check_steps import STEP_LIMIT_S, CheckStep, Outcome, failed, skipped, warned
from datarecs_cli.stack.services import SERVICES
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import RuleFault
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.sections import Database, Egress, Log
from datarecs_runtime.server_rules import KEK, RULES, Checked, Rule
from datarecs_runtime.settings import ServiceSettings, composed_settings, secret_file

if TYPE_CHECKING:
    import httpx

API = "core-api"
FOREIGN = "https://other.example"
"""An Origin that no answer may allow."""
OLDEST_KEK_DAYS = 365
SECONDS_OF_A_DAY = 86_400


def service_names() -> tuple[str, ...]:
    return tuple(service.name for service in SERVICES)


def settings_class_of(name: str) -> type[ServiceSettings]:
    """The sections of a service, as in the table of the stack."""
    service = next(service for service in SERVICES if service.name == name)
    sections = {section.lower() for section in service.sections} | {"database"}
    return composed_settings(sections | ({"kafka"} if service.principal else set()))


def security_steps(name: str, settings: ServiceSettings) -> Iterator[CheckStep]:
    """Rules of settings, then of the database, then of the running API."""
    checked = Checked(settings)
    yield CheckStep("profile", "profile", lambda: _profile(settings))
    for rule in RULES:
        if rule.applies(checked):
            yield CheckStep(rule.number, rule.name, lambda rule=rule: _rule(rule, checked))  # type: ignore[misc]  # the rule of this turn
    yield CheckStep("S6", "age of the key", _age_of_key)
    yield CheckStep("S11", "level of the log", lambda: _log(settings.log))
    yield CheckStep("S17", "opened addresses", lambda: _opened(checked.section(Egress)))
    yield from _database_steps(checked.section(Database))
    if name == API and settings.base_url:
        yield from _server_steps(settings.base_url.rstrip("/"))


def _profile(settings: ServiceSettings) -> Outcome:
    if settings.profile is Profile.SERVER:
        return Outcome(seen="server")
    return failed("local: only for one machine", "remove DATARECS_PROFILE")


def _rule(rule: Rule, checked: Checked) -> Outcome:
    return _judged(tuple(rule.check(checked)))


def _judged(faults: Sequence[RuleFault]) -> Outcome:
    if not faults:
        return Outcome(seen="fulfilled")
    fixes = dict.fromkeys(fault.fix for fault in faults)
    return failed("; ".join(fault.seen for fault in faults), "; ".join(fixes))


def _age_of_key() -> Outcome:
    """By the file, because a key has no date."""
    path = secret_file(KEK)
    if path is None or not path.is_file():
        return skipped(f"{KEK} is not in a file of this service")
    days = int((time.time() - path.stat().st_mtime) / SECONDS_OF_A_DAY)  # noqa: TID251  age of a file
    seen = f"{path} is {days} days old"
    if days <= OLDEST_KEK_DAYS:
        return Outcome(seen=seen)
    return warned(seen, "replace it: docs/howto/kek.md")


def _log(log: Log) -> Outcome:
    if log.level != "debug":
        return Outcome(seen=log.level)
    return warned("debug", "set DATARECS_LOG__LEVEL=info, unless you search for a fault now")


def _opened(egress: Egress | None) -> Outcome:
    """Settings that open more than the default; each is a decision of the operator."""
    if egress is None:
        return Outcome(seen="this service has no outgoing connections to addresses of tenants")
    opened = {
        "ALLOWED_CIDRS__WEBHOOK": egress.allowed_cidrs.webhook,
        "ALLOWED_CIDRS__CONNECTION": egress.allowed_cidrs.connection,
        "ALLOWED_PORTS": sorted(egress.allowed_ports),
        "ALLOWED_HOSTS": sorted(egress.allowed_hosts),
        "NAT64_PREFIXES": egress.nat64_prefixes,
    }
    lines = [f"{name}={','.join(map(str, some))}" for name, some in opened.items() if some]
    if not lines:
        return Outcome(seen="none")
    return warned("DATARECS_EGRESS__: " + ", ".join(lines), "remove what is no longer needed")


def _database_steps(database: Database | None) -> Iterator[CheckStep]:
    if database is None:
        return

    def faults() -> Outcome:
        from contextlib import closing

        from datarecs_postgres.database import Database as Opened
        from datarecs_postgres.database import Limits
        from datarecs_postgres.server_checks import database_faults

        url = database.url.get_secret_value()
        with closing(Opened(url, limits=Limits(pool_size=1), application="doctor")) as opened:
            return _judged(tuple(database_faults((opened,), now=SystemClock().now)))

    yield CheckStep("S4, S5, S16", "login, row security, clock", faults)


def _server_steps(base_url: str) -> Iterator[CheckStep]:
    """All in one part: without https the other answers mean nothing."""
    steps: dict[str, Callable[[str], Outcome]] = {
        "https": _https,
        "login required": _login_required,
        "no foreign origin": _no_foreign_origin,
        "strict transport": _strict_transport,
        "no metrics": _no_metrics,
    }
    for name, check in steps.items():
        yield CheckStep("API", name, lambda check=check: _of_api(check, base_url))  # type: ignore[misc]  # the check of this turn


def _of_api(check: Callable[[str], Outcome], base_url: str) -> Outcome:
    """An API that does not run yet is no fault of the settings."""
    import httpx

    try:
        return check(base_url)
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            fix = "use a certificate for this host; SSL_CERT_FILE names a private authority"
            return failed(f"{base_url}: {error}", fix)
        fix = "start core-api and its proxy, then run it again"
        return skipped(f"{base_url} does not answer: {error}", fix)


def _answer(url: str) -> "httpx.Response":
    import httpx

    return httpx.get(
        url,
        headers={"Origin": FOREIGN},
        timeout=STEP_LIMIT_S,
        follow_redirects=False,
        verify=ssl.create_default_context(),
    )


def _https(base_url: str) -> Outcome:
    status = _answer(f"{base_url}/livez").status_code
    if status == 200:  # noqa: PLR2004  alive
        return Outcome(seen=base_url)
    return failed(f"{base_url}/livez answers {status}", "correct DATARECS_BASE_URL")


def _login_required(base_url: str) -> Outcome:
    status = _answer(f"{base_url}/api/v1/whoami").status_code
    seen = f"without a key {status}"
    return Outcome(seen=seen) if status == 401 else failed(seen, "let the proxy add no key")  # noqa: PLR2004  refused


def _no_foreign_origin(base_url: str) -> Outcome:
    allowed = _answer(f"{base_url}/api/v1/whoami").headers.get("access-control-allow-origin")
    if allowed is None:
        return Outcome(seen="no Access-Control-Allow-Origin")
    return failed(f"Access-Control-Allow-Origin: {allowed}", "remove the header from the proxy")


def _strict_transport(base_url: str) -> Outcome:
    seen = _answer(f"{base_url}/livez").headers.get("strict-transport-security")
    if seen is not None:
        return Outcome(seen=seen)
    fix = "let the proxy send X-Forwarded-Proto: https, from an address in TRUSTED_PROXIES"
    return warned("no Strict-Transport-Security", fix)


def _no_metrics(base_url: str) -> Outcome:
    status = _answer(f"{base_url}/metrics").status_code
    seen = f"{base_url}/metrics answers {status}"
    if status == 200:  # noqa: PLR2004  readable
        return failed(seen, "do not publish the side port")
    return Outcome(seen=seen)

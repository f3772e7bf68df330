"""The generated parts of the Helm chart: what the code already knows is not written twice.

`--write` writes them, `--check` fails if one differs. Generated are the version, the names of
settings in the schema of values, the denied networks, the alerts, the example for Strimzi, and the
table of values in the README.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from pathlib import Path

from datarecs_core.egress.addresses import TABLE, Purpose
from datarecs_events.catalogue import SUBSCRIPTIONS
from datarecs_events.event_types import PREFIX as OF_EVENTS
from datarecs_kafka.topics import DECLARED, Right, configuration, rights
from datarecs_runtime.settings import PREFIX, describe

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "datarecs"
NOTE = "# Written by `make docs`.\n"
OF_THE_CHART = re.compile(
    "PROFILE|BASE_URL|SIDE__PORT|BLOB__(URL|ENDPOINT|CA_FILE)|KAFKA__(BOOTSTRAP|CA_FILE|HOME)|MAIL__(HOST|FROM|TRANSPORT"
    "|DIRECTORY)|SECRETS__FILE_ROOT|UP__.*|JARS__.*|API__PORT|EVENTING__.*"
    "|LAUNCHER__(BACKEND|ARGO__(NAMESPACE|API_URL|ACCOUNT_DIR))"
)
"""Settings that the chart makes from its values, or that only `datarecs up` reads."""
BEYOND_GLOBAL_UNICAST = ("::/3", "4000::/2", "8000::/1")
"""Every IPv6 address outside of 2000::/3."""
CLUSTER = "datarecs"
"""The cluster of `examples/strimzi-cluster.yaml`."""
OF_RUNS = f"{OF_EVENTS}reconciliation."
TABLE_OF_VALUES = re.compile(r"(?<=<!-- Values. -->\n).*(?=<!-- End of values. -->)", re.DOTALL)
KEY = re.compile(r"^( *)([A-Za-z][\w-]*):(?: (.*))?$")


def chart_file() -> str:
    """Chart.yaml with the version of the product."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^version: .*$", f"version: {project['version']}", text)
    return re.sub(r"(?m)^appVersion: .*$", f'appVersion: "{project["version"]}"', text)


def schema() -> str:
    """The schema of values, with the settings of this release."""
    document = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    settings = describe()
    names = [one.name.removeprefix(PREFIX) for one in settings if not one.secret]
    document["definitions"]["settingName"]["enum"] = sorted(
        name for name in names if not OF_THE_CHART.fullmatch(name)
    )
    secrets = {one.name.removeprefix(PREFIX).lower() for one in settings if one.secret}
    document["definitions"]["secretFile"]["enum"] = sorted(secrets)
    return json.dumps(document, indent=2) + "\n"


def denied_ranges() -> str:
    """Networks that no webhook may reach, as `except` of 0.0.0.0/0 and ::/0."""
    networks = [
        network
        for row in TABLE
        if Purpose.WEBHOOK not in row.open_to
        for network in row.networks
        if network.prefixlen
    ]
    networks += [ip_network(text) for text in BEYOND_GLOBAL_UNICAST]
    ipv4 = collapse_addresses(one for one in networks if isinstance(one, IPv4Network))
    ipv6 = collapse_addresses(one for one in networks if isinstance(one, IPv6Network))
    lines = [NOTE.strip(), "ipv4:", *(f"  - {one}" for one in ipv4)]
    lines += ["ipv6:", *(f'  - "{one}"' for one in ipv6)]
    return "\n".join(lines) + "\n"


def alerts() -> str:
    return (ROOT / "docs" / "alerts.yaml").read_text(encoding="utf-8")


def triggers() -> str:
    """Service to its subscriptions, as Triggers of Knative: name, and type or none for all."""
    lines = [NOTE.strip()]
    for service, types in sorted(_subscribed().items()):
        lines.append(f"{service}:")
        for event_type in sorted(types):
            name = event_type.removeprefix(OF_RUNS).replace(".", "-").replace("_", "-")
            lines.append(f"  - {{name: {name}, type: {event_type}}}")
        if not types:
            lines.append("  - {name: all-events}")
    return "\n".join(lines) + "\n"


def _subscribed() -> Mapping[str, set[str]]:
    """Types by service; empty for a service that receives every event."""
    services: dict[str, set[str]] = {}
    for one in SUBSCRIPTIONS:
        services.setdefault(one.service, set()).update(one.types or ())
    return services


def strimzi() -> str:
    """Topics and users of the event catalogue for Strimzi, for the cluster of the example."""
    users = sorted({one.principal for one in rights()})
    documents = [*_topics(), *(_user(name) for name in users)]
    return f"{NOTE}# Topics, users and access rules of the event catalogue.\n" + "".join(
        f"---\n{document}" for document in documents
    )


def _topics() -> Iterator[str]:
    for topic in DECLARED:
        settings = configuration(topic, local=False)
        yield (
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata:\n"
            f"  name: {topic.name}\n  labels: {{strimzi.io/cluster: {CLUSTER}}}\n"
            f"spec:\n  partitions: {topic.partitions}\n  replicas: 3\n  config:\n"
        ) + "".join(f'    {name}: "{value}"\n' for name, value in settings.items())


def _user(principal: str) -> str:
    head = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata:\n"
        f"  name: {principal}\n  labels: {{strimzi.io/cluster: {CLUSTER}}}\n"
        "spec:\n  authentication:\n    type: scram-sha-512\n    password:\n"
        f"      valueFrom: {{secretKeyRef: {{name: datarecs-kafka, key: {principal}}}}}\n"
        "  authorization:\n    type: simple\n    acls:\n"
    )
    return head + "".join(_rule(one) for one in sorted(rights()) if one.principal == principal)


def _rule(right: Right) -> str:
    resource = f"{{type: {right.resource.lower()}, name: {right.name}, patternType: literal}}"
    return f"      - resource: {resource}\n        operations: [{right.operation.capitalize()}]\n"


def readme() -> str:
    """The README as it stands, with the table of today's values."""
    written = (CHART / "README.md").read_text(encoding="utf-8")
    rows = ["| value | default | meaning |\n", "| --- | --- | --- |\n"]
    rows += [f"| `{name}` | {default} | {meaning} |\n" for name, default, meaning in _values()]
    return TABLE_OF_VALUES.sub(lambda _: "".join(rows), written)


def _values() -> Iterator[tuple[str, str, str]]:
    """Path, default and meaning of each value with a comment `# --`."""
    path: list[tuple[int, str]] = []
    meaning = ""
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("# -- "):
            meaning = line.lstrip().removeprefix("# -- ")
        elif key := KEY.match(line):
            depth, name, default = len(key[1]), key[2], key[3] or ""
            path = [*(step for step in path if step[0] < depth), (depth, name)]
            if meaning:
                shown = f"`{default}`" if default and len(default) < 40 else ""  # noqa: PLR2004  fits the table
                yield ".".join(step for _, step in path), shown, meaning
            meaning = ""


FILES: Mapping[str, Callable[[], str]] = {
    "Chart.yaml": chart_file,
    "values.schema.json": schema,
    "files/denied-ranges.yaml": denied_ranges,
    "files/alerts.yaml": alerts,
    "files/triggers.yaml": triggers,
    "examples/strimzi-topics-and-users.yaml": strimzi,
    "README.md": readme,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare every file; 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python docs/chart.py", description=__doc__)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true", help="write the files")
    mode.add_argument("--check", action="store_true", help="fail if a file differs")
    options = parser.parse_args(arguments)
    stale = [name for name, text in FILES.items() if _present(CHART / name) != text()]
    if options.write:
        for name in stale:
            (CHART / name).write_text(FILES[name](), encoding="utf-8")
        return 0
    if stale:
        sys.stderr.write(
            f"charts/datarecs differs from the code: {', '.join(stale)}; run `make docs`\n"
        )
    return 1 if stale else 0


def _present(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    raise SystemExit(main())

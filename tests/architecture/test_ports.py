"""Every port has implementers, and one with state has two that pass its conformance suite.

Read from the source: a class implements a port when it has all of its members and takes the same
parameters. mypy proves the types where wiring joins the two.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from datarecs_runtime.clock import Latch

ROOT = Path(__file__).resolve().parents[2]
PORTS = ROOT / "libs/application/src/datarecs_application/ports"
SUITES = ROOT / "libs/testing/src/datarecs_testing/conformance"
KEEPERS = ("postgres", "kafka", "storage")
"""The adapters of what keeps state: the database, the broker, the blobs."""
PROVED_BY = {
    "Transaction": "UnitOfWork",
    "RunTimers": "WorkFinder",
    "Ack": "LogClient",
    "LogConsumer": "LogClient",
    "LogProducer": "LogClient",
    "LogWriter": "LogClient",
    "BlobStores": "BlobStore",
    "CheckFinder": "Checks",
    "ResourceFinder": "ResourceWork",
    "SinkProducer": "SinkLog",
    "SourceMember": "SinkLog",
    "ControlReader": "SinkLog",
}
"""Ports that are used through another port and tested by its suite."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class as its source shows it: its members and those of its bases in the same member."""

    name: str
    member: str
    members: Mapping[str, frozenset[str]]
    """Name to parameters; fields have none."""

    def implements(self, port: "Class") -> bool:
        return self.member != port.member and all(
            name in self.members and wanted <= self.members[name]
            for name, wanted in port.members.items()
        )


@cache
def class_nodes(folder: Path, pattern: str = "*.py") -> tuple[ast.ClassDef, ...]:
    return tuple(
        node
        for path in sorted(folder.rglob(pattern))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )


def read_classes(member: str, folder: Path) -> dict[str, Class]:
    nodes = {node.name: node for node in class_nodes(folder)}
    return {name: Class(name, member, dict(_members(node, nodes))) for name, node in nodes.items()}


def _members(
    node: ast.ClassDef, known: Mapping[str, ast.ClassDef]
) -> Iterator[tuple[str, frozenset[str]]]:
    for base in node.bases:
        inherited = known.get(ast.unparse(base))
        if inherited is not None and inherited is not node:
            yield from _members(inherited, known)
    for item in node.body:
        if isinstance(item, ast.AnnAssign):
            yield ast.unparse(item.target), frozenset()
        if isinstance(item, ast.FunctionDef):
            yield item.name, _parameters(item)
            for inner in ast.walk(item):
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    yield inner.attr, frozenset()


def _parameters(function: ast.FunctionDef) -> frozenset[str]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if arguments.vararg:
        every.append(arguments.vararg)
    if arguments.kwarg:
        every.append(arguments.kwarg)
    return frozenset(one.arg for one in every if one.arg != "self")


@cache
def shipped_classes() -> tuple[Class, ...]:
    return tuple(
        shipped
        for folder in sorted([*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src")])
        if folder.parent.name != "testing"
        for shipped in read_classes(folder.parent.name, folder).values()
    )


PROTOCOLS = {
    name: port
    for name, port in read_classes("application", PORTS).items()
    if any(
        node.name == name and "Protocol" in map(ast.unparse, node.bases)
        for node in class_nodes(PORTS)
    )
}
LATCH = Class(
    "Latch",
    "runtime",
    {name: frozenset({"timeout"}) for name in vars(Latch) if not name.startswith("_")},
)


def implementers(port: Class) -> list[Class]:
    return [one for one in (*shipped_classes(), LATCH) if one.implements(port)]


def members_running(suite: str) -> set[str]:
    """Members with tests that run a suite, directly or through a suite that inherits it."""
    names = {suite}
    for node in class_nodes(SUITES):
        if names & set(map(ast.unparse, node.bases)):
            names.add(node.name)
    return {
        folder.parent.name
        for folder in ROOT.glob("*/*/tests")
        for node in class_nodes(folder, "test_*.py")
        if names & set(map(ast.unparse, node.bases))
    }


def has_state(port: Class) -> bool:
    """A port that is handed a transaction stores nothing itself; `RunLeases` does it for it."""
    handed = any("tx" in parameters for parameters in port.members.values())
    return not handed and any(one.member in KEEPERS for one in implementers(port))


@pytest.mark.case("ARC-08")
@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_port_has_an_implementer(name: str) -> None:
    assert implementers(PROTOCOLS[name]) != []


@pytest.mark.case("ARC-08")
def test_a_port_with_state_has_two_implementers_in_its_conformance_run() -> None:
    keepers = {name: port for name, port in PROTOCOLS.items() if has_state(port)}
    implemented = {name: {one.member for one in implementers(keepers[name])} for name in keepers}
    proved = {name: members_running(f"{PROVED_BY.get(name, name)}Conformance") for name in keepers}
    assert {"UnitOfWork", "LogClient", "BlobStore"} <= keepers.keys()
    assert {name for name, members in implemented.items() if len(members) < 2} == set()
    assert {name for name, members in proved.items() if len(members) < 2} == set()


@pytest.mark.case("ARC-08")
def test_a_port_that_nobody_implements_is_detected() -> None:
    lonely = Class("Lonely", "application", {"put_new": frozenset({"key", "weight"})})
    assert implementers(lonely) == []
    assert members_running("LonelyConformance") == set()

"""Fetches artefacts of Maven repositories with the Ivy of pyspark, so only Java is needed.

Ivy's default repository is used unless a mirror is named, so this code has no host name.
"""

import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from datarecs_cli.stack.java import NO_TRACES, Java
from datarecs_cli.stack.process import run_text

LIMIT_S = 900


class Coordinate(NamedTuple):
    organisation: str
    module: str
    revision: str


class Retrieval(NamedTuple):
    """One request to Ivy."""

    wanted: Sequence[Coordinate]
    pattern: str
    """Path of each jar below the work folder, with Ivy's placeholders in brackets."""
    transitive: bool = False
    mirror: str | None = None


def retrieve(retrieval: Retrieval, java: Java, work: Path) -> str:
    """Fetch the jars into `work` with Ivy; returns Ivy's message about jars that it did not get.

    Never raises; the caller checks the fetched files.
    """
    ivy = _ivy_jar()
    if ivy is None:
        return "pyspark is not installed; its Ivy fetches them"
    (work / "ivy.xml").write_text(_module(retrieval), encoding="utf-8")
    trust = [f"-Djavax.net.ssl.trustStore={java.trust_store}"] if java.trust_store else []
    argv = [str(java.executable), NO_TRACES, f"-Djava.io.tmpdir={work}", *trust]
    argv += ["-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache")]
    if retrieval.mirror is not None:
        (work / "settings.xml").write_text(_settings(retrieval.mirror), encoding="utf-8")
        argv += ["-settings", str(work / "settings.xml")]
    argv += ["-types", "jar", "bundle", "-warn", "-retrieve", f"{work}/{retrieval.pattern}"]
    try:
        ended = run_text(argv, environment={}, timeout_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"fetching took longer than {LIMIT_S} s"
    return _failure_line(ended.stdout)


def _failure_line(output: str) -> str:
    """The line with a cause in Ivy's output; its table of unresolved modules has none."""
    lines = [line.strip() for line in output.splitlines()]
    for word in ("Exception", "error", "not found"):
        for line in lines:
            if word in line:
                return line[:300]
    return "nothing was fetched; check the network connection"


def _ivy_jar() -> Path | None:
    spec = find_spec("pyspark")
    for location in spec.submodule_search_locations or () if spec else ():
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    return None


def _module(retrieval: Retrieval) -> str:
    transitive = str(retrieval.transitive).lower()
    entries = "".join(
        f"<dependency org={quoteattr(one.organisation)} name={quoteattr(one.module)}"
        f' rev={quoteattr(one.revision)} transitive="{transitive}" conf="*->default"/>'
        for one in retrieval.wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="datarecs" module="kafka-broker"/>'
        f"<dependencies>{entries}</dependencies></ivy-module>"
    )


def _settings(mirror: str) -> str:
    return (
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" m2compatible="true" root={quoteattr(mirror)}/>'
        "</resolvers></ivysettings>"
    )

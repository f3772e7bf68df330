"""A run as JUnit XML: one suite per stage, one case per measure and one for the keys.

For pipelines that show test results. It has only counts and gaps and no values of rows, so it can
be published with test results.
"""

from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree as ET

from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_reports.decoding import run_facts
from datarecs_reports.ending import NO_VERDICT
from datarecs_reports.figures import count, visible
from datarecs_reports.model import Executed, MeasureFacts, RunFacts, StageFacts
from datarecs_reports.words import class_words, missing_words, short_tolerance, skipped_words

PRESENCE = "keys"
"""The case that fails if a group is missing in a source."""


def run_junit(document: Mapping[str, object]) -> bytes:
    """The suites of a run with a verdict.

    Raises:
        DocumentUnreadableError: the document is not a run.json.
    """
    facts = run_facts(document)
    suites = [_suite(stage, facts) for stage in facts.stages]
    return _written(facts.job, suites)


def ending_junit(run: Mapping[str, object]) -> bytes:
    """One suite with one case for a run without a verdict: an error, or skipped if cancelled.

    Args:
        run: a terminal run as in the API.
    """
    job = str(run.get("job") or "comparison")
    suite = ET.Element("testsuite", name=_safe(job))
    case = ET.SubElement(suite, "testcase", name="run", classname=_safe(job))
    error = run.get("error")
    error_fields = error if isinstance(error, Mapping) else {}
    if run.get("status") == "CANCELLED":
        ET.SubElement(case, "skipped", message="cancelled")
    else:
        kind = str(error_fields.get("detail_code") or error_fields.get("code") or run.get("status"))
        message = str(error_fields.get("message") or NO_VERDICT)
        ET.SubElement(case, "error", type=_safe(kind), message=_safe(message, most=2000))
    return _written(job, [suite])


def _suite(stage: StageFacts, facts: RunFacts) -> ET.Element:
    suite = ET.Element("testsuite", name=_safe(stage.name))
    name = f"{facts.job}.{stage.name}"
    if stage.executed is None:
        case = ET.SubElement(suite, "testcase", name="stage", classname=_safe(name))
        ET.SubElement(case, "skipped", message=_safe(skipped_words(stage)))
        return suite
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="proof_hash", value=_safe(facts.proof_hash))
    ET.SubElement(properties, "property", name="acceptance", value=stage.executed.acceptance)
    if stage.executed.confirmed is not None:
        resolved = str(stage.executed.confirmed.resolved)
        ET.SubElement(properties, "property", name="in_flight_resolved", value=resolved)
    for title, failure in _cases(stage.executed, facts.source_names):
        case = ET.SubElement(suite, "testcase", name=_safe(title), classname=_safe(name))
        if failure is not None:
            kind, message = failure
            ET.SubElement(case, "failure", type=kind, message=_safe(message, most=2000))
    return suite


def _cases(
    executed: Executed, sources: Sequence[str]
) -> Iterator[tuple[str, tuple[str, str] | None]]:
    """The name of each case, with the type and message of its failure."""
    missing = ", ".join(missing_words(executed, sources))
    groups = f"{count(executed.counts.rows_compared)} groups: {missing}"
    yield PRESENCE, (("MISSING", groups) if executed.counts.unmatched_groups else None)
    for measure in executed.measures:
        yield measure.name, None if measure.passed else ("OUTSIDE", _outside(measure))


def _outside(measure: MeasureFacts) -> str:
    classes = ", ".join(
        f"{count(groups)} {class_words(DifferenceClass(kind))}"
        for kind, groups in measure.classes.items()
    )
    outside, compared = count(measure.outside), count(measure.compared)
    return f"{outside} of {compared} groups outside {short_tolerance(measure)}: {classes}"


def _written(name: str, suites: Sequence[ET.Element]) -> bytes:
    root = ET.Element("testsuites", name=_safe(name))
    root.extend(suites)
    for element in (root, *suites):
        element.set("tests", str(len(element.findall(".//testcase"))))
        for word, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(word, str(len(element.findall(f".//{tag}"))))
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _safe(text: str, *, most: int = 500) -> str:
    """The text without characters that XML does not allow."""
    return visible(text, most=most)

"""A situation for every code of the catalogue: an action, and the names in its message.

A new code needs a row here: a declaration with that fault, an exception that carries the code, or
the test that raises it through its public face.
"""

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from datarecs.errors import ArgumentError
from datarecs_application.confirming import StoppedWhileWaitingError
from datarecs_application.errors import RunExistsError
from datarecs_application.stopping import StoppedError
from datarecs_cli.config import NoServerKnownError, ServerNotTrustedError
from datarecs_cli.local.faults import TooLittleMemoryError
from datarecs_cli.refusals import WaitedTooLongError
from datarecs_cli.what_if import JudgeRefusedError
from datarecs_connectors.errors import SchemaChangedError
from datarecs_core.comparison.planning.faults import NothingExecutedError, PlanRefusedError
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import (
    CaptureEndedError,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.errors.faults import Fault, dotted
from datarecs_core.errors.process import InsecureStartError, RuleFault
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.jobs.definition import ReconciliationJob, Stage
from datarecs_core.resources.refusals import (
    BeingDeletedError,
    PreconditionFailedError,
    ResourceNotFoundError,
    WriteConflictError,
)
from datarecs_core.runs.events import RunEvent
from datarecs_core.runs.refusals import (
    AttemptAheadError,
    RunAlreadyTerminalError,
    RunNotTerminalError,
    UnknownRunError,
)
from datarecs_events.encoding import EventEncodeError
from datarecs_spark.errors import CancelledError
from datarecs_specs.documents import InvalidSpecError, decode_yaml
from datarecs_specs.findings import Finding
from datarecs_specs.reading import Surroundings
from datarecs_testing.builders import a_resource, a_run
from datarecs_testing.comparisons import a_measure, absolute, rows_by
from datarecs_testing.tables import Table, a_job, a_table, plan_of

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: job}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""
FIRST, STAGE = "path: one.csv}", "type: row, dimensions: [id], measures: [{name: amount}]}"


def line_of(fault: Fault | Finding) -> str:
    """A fault as it is printed behind its code."""
    place = fault.path if isinstance(fault, Finding) else dotted(fault.path)
    return f"{place}: {fault.message}; {fault.hint}"


class Declared(NamedTuple):
    """A declaration with one fault: the job above with one text replaced, or another document."""

    old: str
    new: str
    names: tuple[str, ...]
    """What the message says of the declaration, letter by letter."""

    def messages(self, code: str) -> list[str]:
        text = JOB.replace(self.old, self.new) if self.old else self.new
        assert text != JOB, self.old
        decoded = decode_yaml(text.encode(), surroundings=Surroundings())
        faults = [fault for each in decoded for fault in (*each.faults, *each.warnings)]
        return [line_of(one) for one in faults if one.code.docs_id == code]


class Planned(NamedTuple):
    """A job that its sources' columns do not fit."""

    make: Callable[[], tuple[ReconciliationJob, list[Table]]]
    names: tuple[str, ...]

    def messages(self, code: str) -> list[str]:
        try:
            plan_of(*self.make())
        except PlanRefusedError as refused:
            faults = refused.faults
            return [line_of(one) for one in faults if one.code.docs_id == code]
        return []


class ShownBy(NamedTuple):
    """The test that raises the code through its public face, and the thing it is about."""

    test: str
    """`path::name`."""
    thing: str
    """A word that the meaning and the remedy of the code share with the situation."""


def tables(one: str, two: str) -> list[Table]:
    return [a_table("one", one), a_table("two", two)]


def job_over(
    one: str, two: str, stage: Stage
) -> Callable[[], tuple[ReconciliationJob, list[Table]]]:
    def make() -> tuple[ReconciliationJob, list[Table]]:
        tables_made = tables(one, two)
        return a_job(tables_made, stage), tables_made

    return make


BY_VALUE = rows_by("k", a_measure("v"))
TOLERANCE = "measures: [{name: amount, tolerances: [%s]}]}"


def tolerance(written: str, *names: str) -> Declared:
    return Declared("measures: [{name: amount}]}", TOLERANCE % written, names)


def stage(written: str, *names: str) -> Declared:
    return Declared(STAGE, written, names)


def source(written: str, *names: str) -> Declared:
    return Declared(FIRST, f"path: one.csv, {written}}}", names)


DECLARED: dict[str, Declared | Planned] = {
    "DR1001": Declared("metadata: {name: job}", "metadata: {name: job", ()),
    "DR1002": Declared("metadata: {name: job}", "metadata: {name: job, name: other}", ("name",)),
    "DR1003": Declared("metadata: {name: job}", "metadata: {name: !!python/name job}", ("tag",)),
    "DR1004": tolerance("{type: ABSOLUTE, value: 1, limitt: 2}", "limitt"),
    "DR1005": source("filter: a > 1, where: a > 2", "where", "filter"),
    "DR1006": source("options: {fetch_size: 5}", "fetch_size", "postgres"),
    "DR1007": source("where: a > 1", "where", "filter"),
    "DR1010": Declared("metadata: {name: job}", "metadata: {}", ("'name'",)),
    "DR1011": stage(
        "type: row, dimensions: 5, measures: [{name: amount}]}", "stages[0].dimensions", "list"
    ),
    "DR1012": stage(
        "type: rowz, dimensions: [id], measures: [{name: amount}]}", "stages[0].type", "row"
    ),
    "DR1013": Declared("{name: one,", "{name: One_X,", ("sources[0].name",)),
    "DR1014": Declared("    - {name: two, kind: csv, path: two.csv}\n", "", ("spec.sources", "2")),
    "DR1015": Declared(FIRST, 'path: "\\a"}', ("sources[0].path",)),
    "DR1016": Declared(
        "kind: ReconciliationJob", "kind: Reconciliation", ("kind", "ReconciliationJob")
    ),
    "DR1020": Declared("{name: two,", "{name: one,", ("sources[1].name", "sources[0]")),
    "DR1021": stage(
        "type: row, reference: three, dimensions: [id], measures: [{name: amount}]}",
        "reference",
        "one, two",
    ),
    "DR1022": stage(
        "type: row, scope: {from_stage: later}, dimensions: [id], measures: [{name: amount}]}",
        "stages[0].scope",
    ),
    "DR1030": Declared("kind: csv, path: one.csv", "kind: postgres, connection: c", ("relation",)),
    "DR1031": source("filter: 'a > '", "sources[0].filter"),
    "DR1032": source("filter: a IN (SELECT 1)", "sources[0].filter", "subquery"),
    "DR1033": source("filter: 'day = :day'", "sources[0].filter", "parameter"),
    "DR1034": Declared(
        "spec:\n",
        "spec:\n  parameters: {day: {type: date, default: soon}}\n",
        ("parameters.day", "date"),
    ),
    "DR1035": Declared(
        "spec:\n",
        "spec:\n  parameters: {day: {type: date, default: '{{ run.moon }}'}}\n",
        ("parameters.day",),
    ),
    "DR1040": tolerance("{type: ABSOLUTE, value: -1}", "tolerances[0].value"),
    "DR1041": tolerance("{type: PERCENTAGE, value: 101}", "tolerances[0].value", "100"),
    "DR1043": tolerance("{type: ABSOLUTE, value: 1, base: max_abs}", "ABSOLUTE", "base"),
    "DR1044": tolerance("{type: EXACT, value: 1}", "EXACT"),
    "DR1045": tolerance("{type: EXACT}, {type: ABSOLUTE, value: 1}", "EXACT"),
    "DR1046": tolerance("{type: DURATION, value: 5m}", "tolerances[0].value", "PT15M"),
    "DR1050": stage(
        "type: row, dimensions: [id], measures: [{name: amount, function: sum}]}",
        "measures[0].function",
    ),
    "DR1051": stage(
        "type: row, dimensions: [id], measures: [{name: id}]}", "measures[0]", "dimension"
    ),
    "DR1052": stage(
        "type: digest, dimensions: [id], measures: "
        "[{name: amount, tolerances: [{type: ABSOLUTE, value: 1}]}]}",
        "tolerances",
        "digest",
    ),
    "DR1053": stage('type: aggregate, dimensions: [id], measures: "*"}', "*"),
    "DR1054": stage(
        "type: custom_sql, dimensions: [id], measures: [{name: amount}], queries: {one: SELECT 1}}",
        "two",
    ),
    "DR1055": stage(
        "type: row, duplicates: aggregate, dimensions: [id], measures: [{name: amount}]}",
        "duplicates",
    ),
    "DR1056": Declared(
        "  stages:\n",
        "  stages:\n    - {name: columns, type: schema}\n"
        "    - {name: scoped, type: row, scope: {from_stage: columns}, dimensions: [id], "
        "measures: [{name: amount}]}\n",
        ("stages[1].scope", "schema"),
    ),
    "DR1071": source("timezone: Mars/Base", "sources[0].timezone", "zone"),
    "DR1072": Declared(
        "spec:\n",
        "spec:\n  results: {breaks: {mask: {nothere: redact}}}\n",
        ("breaks.mask", "column"),
    ),
    "DR1073": Declared(
        "",
        """\
apiVersion: datarecs.io/v1
kind: Schedule
metadata: {name: nightly}
spec: {job: job, cron: 0 0 30 2 *}
""",
        ("spec.cron", "never fires"),
    ),
    "DR1042": Planned(
        job_over("k int, v text", "k int, v text", rows_by("k", a_measure("v", absolute("1")))),
        ("ABSOLUTE", "v", "text"),
    ),
    "DR1060": Planned(
        job_over("k int, v int", "k int", BY_VALUE), ("'v'", "source two", "it has k")
    ),
    "DR1061": Planned(
        job_over("k int, v int, v int", "k int, v int", BY_VALUE),
        ("source one", "'v'", "more than once"),
    ),
    "DR1062": Planned(
        job_over("k int, v int", "k int, v text", BY_VALUE), ("v is int in one", "text in two")
    ),
    "DR1063": Planned(
        job_over("k int, v instant", "k int, v local_timestamp", BY_VALUE),
        ("v of source two", "timezone"),
    ),
}
FOLDERS = "libs/testing/src/datarecs_testing/conformance/captured_folders.py"
TREES = "libs/testing/src/datarecs_testing/conformance/capture_trees.py"
SHOWN: dict[str, ShownBy] = {
    "DR1008": ShownBy(
        "libs/specs/tests/test_documents.py"
        "::test_what_a_server_needs_is_a_note_elsewhere_in_the_same_words",
        "path",
    ),
    "DR1009": ShownBy(
        "libs/cli/tests/test_reports.py::test_plan_refuses_what_has_no_effect",
        "field",
    ),
    "DR1017": ShownBy(
        "libs/specs/tests/test_other_kinds.py::test_a_bad_connection_is_reported",
        "URL",
    ),
    "DR1018": ShownBy(
        "libs/specs/tests/test_other_kinds.py"
        "::test_a_hostile_address_is_refused_and_never_repeated",
        "address",
    ),
    "DR1019": ShownBy(
        "libs/specs/tests/test_other_kinds.py"
        "::test_a_secret_in_clear_is_refused_and_never_repeated",
        "secret",
    ),
    "DR1023": ShownBy(
        "libs/cli/tests/test_client.py::test_codes_of_declarations_have_a_separate_page",
        "connection",
    ),
    "DR1024": ShownBy(
        "libs/core/tests/resources/test_connection.py"
        "::test_a_connection_must_exist_and_serve_the_source",
        "connection",
    ),
    "DR1057": ShownBy(
        "libs/core/tests/jobs/test_validation.py::test_a_recheck_needs_a_source_that_can_change",
        "source",
    ),
    "DR1065": ShownBy(
        "libs/core/tests/comparison/test_custom_sql.py"
        "::test_a_source_without_queries_is_refused_and_the_plan_names_the_fix",
        "kinds",
    ),
    "DR1066": ShownBy(
        "libs/core/tests/comparison/test_planner.py"
        "::test_a_column_that_no_row_brings_is_refused_where_it_is_named",
        "column",
    ),
    "DR1080": ShownBy(
        "libs/specs/tests/test_other_kinds.py"
        "::test_a_remote_server_without_encryption_needs_the_words_that_accept_it",
        "network",
    ),
    "DR1081": ShownBy(
        "libs/specs/tests/test_other_kinds.py"
        "::test_a_reference_is_accepted_where_its_secret_was_meant_for_alone",
        "secret",
    ),
    "DR3005": ShownBy(
        "libs/core/tests/comparison/test_planner.py"
        "::test_a_repeated_column_is_ambiguous_once_it_is_used",
        "column",
    ),
    "DR3015": ShownBy(
        "libs/core/tests/runs/test_decide.py::test_row_14_timers_end_runs_without_a_reported_end",
        "worker",
    ),
    "DR3017": ShownBy(
        "libs/core/tests/runs/test_decide.py::test_row_10_an_error_finalises_with_its_code",
        "machine",
    ),
    "DR3018": ShownBy(
        "libs/core/tests/runs/test_outcome.py::test_the_evidence_table",
        "worker",
    ),
    "DR3020": ShownBy(
        "libs/core/tests/runs/test_outcome.py::test_the_evidence_table",
        "machine",
    ),
    "DR3021": ShownBy(
        "libs/application/tests/test_runs.py"
        "::test_a_lost_lease_leads_to_another_attempt_and_then_ends_the_run",
        "worker",
    ),
    "DR3023": ShownBy(
        "libs/core/tests/comparison/test_planner.py"
        "::test_types_that_do_not_compare_are_refused_before_anything_is_read",
        "type",
    ),
    "DR3024": ShownBy(
        "libs/core/tests/comparison/test_planner.py"
        "::test_a_naive_time_against_an_aware_one_needs_a_zone",
        "zone",
    ),
    "DR3033": ShownBy(
        "libs/application/tests/test_notifications.py"
        "::test_a_run_that_was_never_submitted_is_mailed_as_such",
        "queue_errored",
    ),
    "DR3034": ShownBy(
        "libs/core/tests/runs/test_decide.py"
        "::test_row_3_a_run_without_a_worker_is_queue_errored_and_finalised",
        "backend",
    ),
    "DR3035": ShownBy(
        "libs/core/tests/runs/test_decide.py::test_row_16_a_stop_that_is_ignored_is_forced",
        "writes",
    ),
    "DR3036": ShownBy(
        "libs/application/tests/test_runs.py"
        "::test_a_child_without_a_believable_result_file_completes_nothing",
        "run",
    ),
    "DR3037": ShownBy(
        "libs/application/tests/test_runs.py"
        "::test_a_child_without_a_believable_result_file_completes_nothing",
        "run",
    ),
    "DR3039": ShownBy(
        "libs/core/tests/runs/test_repairing.py"
        "::test_an_execution_that_vanished_was_stopped_outside_datarecs",
        "datarecs",
    ),
    "DR4001": ShownBy(
        "services/core-api/tests/test_declared.py::test_of_half_a_surrogate_pair_are_400",
        "JSON",
    ),
    "DR4002": ShownBy(
        "services/core-api/tests/test_body.py::test_of_another_kind_is_415",
        "application/json",
    ),
    "DR4003": ShownBy(
        "services/core-api/tests/test_body.py::test_of_a_declaration_has_a_separate_limit",
        "file",
    ),
    "DR4005": ShownBy(
        "services/core-api/tests/test_shell.py::test_every_path_names_the_methods_it_takes",
        "method",
    ),
    "DR4006": ShownBy(
        "services/core-api/tests/test_declared.py::test_of_a_list_refuses_a_cursor_of_another_list",
        "page",
    ),
    "DR4007": ShownBy(
        "services/core-api/tests/test_live.py::test_is_what_the_caller_accepts",
        "Accept",
    ),
    "DR4013": ShownBy(
        "services/core-api/tests/test_declared.py::test_needs_the_version_it_replaces",
        "If-Match",
    ),
    "DR4016": ShownBy(
        "libs/cli/tests/test_client.py"
        "::test_429_for_ever_ends_after_three_retries_with_cause_and_next_step",
        "Retry-After",
    ),
    "DR4018": ShownBy(
        "services/core-api/tests/test_webhook_actions.py::test_a_second_window_waits_for_the_first",
        "cancel",
    ),
    "DR4019": ShownBy(
        "services/core-api/tests/test_endpoint_verbs.py::test_a_fifth_live_secret_is_refused",
        "PT0S",
    ),
    "DR4022": ShownBy(
        "libs/cli/tests/test_client.py::test_a_key_used_for_another_body_is_a_wrong_request",
        "key",
    ),
    "DR7001": ShownBy(
        "libs/testing/src/datarecs_testing/conformance/sink_log.py"
        "::test_a_source_topic_that_does_not_exist_is_refused",
        "topic",
    ),
    "DR7002": ShownBy(
        "libs/application/tests/sinking/test_declared.py"
        "::test_the_older_of_two_sinks_has_the_table",
        "SinkTable",
    ),
    "DR7003": ShownBy(
        "libs/connectors/tests/sinking/test_writing.py"
        "::test_a_table_of_format_version_3_is_refused",
        "format version",
    ),
    "DR7004": ShownBy(
        "libs/connectors/tests/sinking/test_writing.py::test_a_table_of_other_files_is_refused",
        "files",
    ),
    "DR7005": ShownBy(
        "libs/connectors/tests/sinking/test_creating.py"
        "::test_an_id_column_that_identifies_nothing_is_refused",
        "identify",
    ),
    "DR7006": ShownBy(
        "libs/connectors/tests/sinking/test_creating.py"
        "::test_a_wrong_term_is_named_with_its_position_and_no_table_is_made",
        "partition_by",
    ),
    "DR7010": ShownBy(
        "libs/application/tests/sinking/test_sink_worker.py"
        "::test_another_cluster_or_control_topic_halts_before_a_record_is_read",
        "control topic",
    ),
    "DR7011": ShownBy(
        "libs/application/tests/sinking/test_sink_worker.py"
        "::test_a_control_topic_that_lost_needed_messages_halts_the_sink",
        "control topic",
    ),
    "DR7012": ShownBy(
        "libs/application/tests/sinking/test_sink_worker.py"
        "::test_records_that_were_removed_before_they_were_written_halt_the_sink",
        "removed",
    ),
    "DR7013": ShownBy(
        "libs/connectors/tests/sinking/test_committing.py"
        "::test_a_rollback_stops_the_table_until_it_is_rolled_forward",
        "rolled back",
    ),
    "DR7014": ShownBy(
        "libs/connectors/tests/sinking/test_writing.py::test_a_missing_table_is_named",
        "table",
    ),
    "DR7015": ShownBy(
        "libs/application/tests/sinking/test_sink_commits.py"
        "::test_commits_that_fail_again_and_again_are_reported_and_stop_the_reading",
        "commit",
    ),
    "DR7017": ShownBy(
        "libs/connectors/tests/sinking/test_changes.py"
        "::test_a_search_of_too_many_rows_is_refused_and_the_cycle_stays",
        "rows",
    ),
    "DR7018": ShownBy(
        "libs/connectors/tests/sinking/test_writing.py"
        "::test_a_table_in_the_folder_of_another_tenant_is_refused",
        "places",
    ),
    "DR7019": ShownBy(
        "libs/application/tests/sinking/test_tasks.py::test_a_broker_that_does_not_answer_is_named",
        "broker",
    ),
    "DR7020": ShownBy(
        "libs/connectors/tests/sinking/test_writing.py::test_a_hadoop_catalog_is_refused",
        "catalog",
    ),
    "DR7022": ShownBy(
        "libs/application/tests/sinking/test_sink_commits.py"
        "::test_a_damaged_control_message_halts_the_sink",
        "control topic",
    ),
    "DR7023": ShownBy(
        "libs/application/tests/sinking/test_tasks.py"
        "::test_a_task_that_dies_begins_again_with_growing_pauses",
        "process",
    ),
    "DR7024": ShownBy(
        "services/core-api/tests/test_sinks.py::test_a_verb_needs_a_sink_that_has_begun", "sink"
    ),
    "DR7025": ShownBy(
        "services/core-api/tests/test_sink_positions.py"
        "::test_a_reset_is_refused_while_tables_hold_different_records",
        "sink",
    ),
    "DR7026": ShownBy(
        "services/core-api/tests/test_sink_positions.py"
        "::test_a_decision_waits_for_one_about_another_table",
        "decision",
    ),
    "DR4023": ShownBy(
        "libs/cli/tests/test_client.py::test_a_key_that_is_too_long_is_a_wrong_request",
        "characters",
    ),
    "DR4029": ShownBy(
        "services/core-api/tests/test_watching.py"
        "::test_a_place_that_is_too_old_requests_a_new_list",
        "watch_since",
    ),
    "DR4025": ShownBy(
        "services/core-api/tests/test_results.py"
        "::test_a_result_that_the_store_has_lost_is_named_with_its_fix",
        "backup",
    ),
    "DR4090": ShownBy(
        "libs/cli/tests/test_client.py::test_a_server_fault_names_its_trace",
        "trace",
    ),
    "DR4091": ShownBy(
        "services/core-api/tests/test_api_on_postgres.py"
        "::test_without_a_database_nothing_is_promised",
        "Retry-After",
    ),
    "DR5603": ShownBy(
        "libs/application/tests/test_notifications.py"
        "::test_a_refused_login_leaves_mails_pending_and_rests_15_minutes",
        "DATARECS_MAIL",
    ),
    "DR5604": ShownBy(
        "libs/application/tests/test_notifications.py"
        "::test_a_day_without_relay_ends_as_expired_with_an_event",
        "DATARECS_MAIL",
    ),
    "DR5704": ShownBy(
        "libs/kafka/tests/test_redrive.py"
        "::test_a_consumer_that_fails_at_everything_stops_itself_after_eleven",
        "dead letters",
    ),
    "DR5705": ShownBy(
        "libs/kafka/tests/test_consumer.py"
        "::test_records_gone_before_they_were_read_raise_the_alarm",
        "topic",
    ),
    "DR5706": ShownBy(
        "libs/kafka/tests/test_redrive.py"
        "::test_without_a_dead_letter_the_partition_waits_and_skips_nothing",
        "topic",
    ),
    "DR5707": ShownBy(
        "libs/kafka/tests/test_relay.py"
        "::test_a_record_the_broker_can_never_take_is_parked_and_its_key_goes_on",
        "unpark",
    ),
    "DR5708": ShownBy(
        "libs/kafka/tests/test_refusals.py"
        "::test_a_position_no_client_can_parse_is_passed_and_counted",
        "offset",
    ),
    "DR5866": ShownBy(
        f"{FOLDERS}::test_a_column_that_does_not_exist_fails_and_leaves_the_published_statistics",
        "column",
    ),
    "DR5851": ShownBy(
        f"{FOLDERS}::test_a_deleted_connection_ends_the_capture",
        "connection",
    ),
    "DR5852": ShownBy(
        f"{FOLDERS}::test_a_table_that_does_not_exist_fails_the_capture_with_its_name",
        "table",
    ),
    "DR5853": ShownBy(
        f"{FOLDERS}::test_a_view_with_the_name_of_a_table_fails_the_capture",
        "objects",
    ),
    "DR5854": ShownBy(
        f"{FOLDERS}::test_a_missing_plan_is_coverage_unknown",
        "plan",
    ),
    "DR5855": ShownBy(
        f"{FOLDERS}::test_a_lost_or_added_record_of_a_file_publishes_nothing",
        "files",
    ),
    "DR5856": ShownBy(
        "libs/testing/src/datarecs_testing/conformance/capture_queue.py"
        "::test_too_many_children_fail_the_item_for_good",
        "parts",
    ),
    "DR5857": ShownBy(
        f"{TREES}::test_an_item_whose_workers_always_vanish_fails",
        "workers",
    ),
    "DR5858": ShownBy(
        f"{TREES}::test_a_deadline_passes_although_the_lease_is_renewed",
        "attempt",
    ),
    "DR5859": ShownBy(
        f"{TREES}::test_waiting_for_a_dependency_costs_no_attempt_for_a_day",
        "24 hours",
    ),
    "DR5860": ShownBy(
        "libs/postgres/tests/test_captures.py::test_a_task_that_cannot_be_read_fails_its_item",
        "definition",
    ),
    "DR5865": ShownBy(
        "libs/application/tests/capturing/test_working.py"
        "::test_a_child_that_dies_is_tried_again_with_its_end",
        "process",
    ),
    "DR6010": ShownBy(
        "services/core-api/tests/test_sign_in.py"
        "::test_a_key_in_a_url_is_refused_even_if_it_is_good",
        "key",
    ),
    "DR6011": ShownBy(
        "libs/cli/tests/test_client.py::test_a_wrong_key_is_reported_at_once",
        "key",
    ),
    "DR6012": ShownBy(
        "libs/cli/tests/test_resources.py::test_what_stops_one_object_for_all_stops_all",
        "role",
    ),
}


class Made(NamedTuple):
    """An exception with facts that are not plain values, and their names in its message."""

    error: DatarecsError
    names: tuple[str, ...]


RUN, RESOURCE = a_run(), a_resource()
ITEM = UUID(int=4_711)
EVENT = RunEvent(tenant_id=RUN.tenant_id, run_id=RUN.run_id, job_id=RUN.job_id)
(DECODED,) = decode_yaml(b"kind: ReconciliationJob\nmetadata: {name: job}\n")
MADE: dict[type[DatarecsError], Made] = {
    BadRecordError: Made(
        BadRecordError(path="amount", reason="the column is required and has no value", at=7),
        ("amount", "required"),
    ),
    ArgumentError: Made(ArgumentError("the-reason"), ("the-reason",)),
    SchemaChangedError: Made(
        SchemaChangedError("the-source", ("a.csv", "b.csv"), "the-difference"),
        ("the-source", "a.csv", "b.csv", "the-difference"),
    ),
    UnknownRunError: Made(UnknownRunError(EVENT), (str(EVENT.run_id),)),
    AttemptAheadError: Made(AttemptAheadError(RUN, attempt=9), (str(RUN.run_id), "9")),
    RunAlreadyTerminalError: Made(RunAlreadyTerminalError(RUN), (str(RUN.run_id), RUN.status)),
    RunNotTerminalError: Made(RunNotTerminalError(RUN), (str(RUN.run_id), RUN.status)),
    BeingDeletedError: Made(BeingDeletedError(resource=RESOURCE), (RESOURCE.name,)),
    PreconditionFailedError: Made(PreconditionFailedError(resource=RESOURCE), (RESOURCE.name,)),
    ResourceNotFoundError: Made(
        ResourceNotFoundError(kind=RESOURCE.kind, namespace="the-namespace", name="the-name"),
        (RESOURCE.kind, "the-name"),
    ),
    WriteConflictError: Made(
        WriteConflictError(kind=RESOURCE.kind, name="the-name", tries=3), ("the-name", "3")
    ),
    EventEncodeError: Made(EventEncodeError(event=RUN, why="the-why"), ("Run", "the-why")),
    InvalidSpecError: Made(InvalidSpecError(findings=DECODED.faults), (DECODED.faults[0].message,)),
    JudgeRefusedError: Made(JudgeRefusedError("the-reason"), ("the-reason",)),
    NoServerKnownError: Made(NoServerKnownError("the-reason"), ("the-reason",)),
    ServerNotTrustedError: Made(ServerNotTrustedError("the-reason"), ("the-reason",)),
    LeaseLostError: Made(LeaseLostError(item_id=ITEM, epoch=42), (str(ITEM), "42")),
    OutcomeRefusedError: Made(
        OutcomeRefusedError(item_id=ITEM, faults=["the-first", "the-second"]),
        (str(ITEM), "the-first", "the-second"),
    ),
    CaptureNotFoundError: Made(CaptureNotFoundError(item_id=ITEM), (str(ITEM),)),
    CaptureEndedError: Made(
        CaptureEndedError(item_id=ITEM, state="SUCCEEDED"), (str(ITEM), "SUCCEEDED")
    ),
    WaitedTooLongError: Made(
        WaitedTooLongError(what="run the-run", seconds=4_711), ("the-run", "4711")
    ),
    RunNotFinishedError: Made(RunNotFinishedError(run_id=RUN.run_id), (str(RUN.run_id),)),
    RunExistsError: Made(RunExistsError(run_id=RUN.run_id), (str(RUN.run_id),)),
    InsecureStartError: Made(
        InsecureStartError((RuleFault("the-rule", "the-service", "the-fix"),)),
        ("the-rule", "the-service", "the-fix"),
    ),
}
NAMELESS: dict[type[DatarecsError], str] = {
    TooLittleMemoryError: "this machine",
    NothingExecutedError: "no stage",
    StoppedWhileWaitingError: "comparison",
    CancelledError: "comparison",
    StoppedError: "run",
}
"""Exceptions without a fact, and what their message is about."""

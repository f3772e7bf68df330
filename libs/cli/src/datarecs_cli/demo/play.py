"""The steps of the demo from its data to its two verdicts, and their output.

It uses the platform as any client does: data in the sources, declarations and runs over REST, mail
from the maildir, webhooks at a local receiver.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from datarecs_cli.applying import Applied, apply_each, check_for_server
from datarecs_cli.client import Api, ApiRequest, Json, path_of
from datarecs_cli.demo import declarations, expected
from datarecs_cli.demo.books import load_ledger, write_exports
from datarecs_cli.demo.entries import exports, ledger
from datarecs_cli.invocation import Invocation
from datarecs_cli.output import Words
from datarecs_cli.receiver import Received, Receiver
from datarecs_cli.run_ending import Ending, ending_of, ending_text, save_report
from datarecs_cli.screen import Screen
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.failures import DemoFailedError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.psql import Login
from datarecs_cli.triggering import trigger
from datarecs_cli.watching import ProgressView, wait_for_end
from datarecs_core.resources.resource import DEFAULT_NAMESPACE
from datarecs_core.webhooks.signature import secret_key
from datarecs_runtime.clock import SystemClock

RUN_LIMIT_S = 300.0
ARRIVAL_LIMIT_S = 60.0
"""Time limit for mail and webhook after the run has ended."""
POLL_EVERY = timedelta(seconds=0.1)
INDENT = " " * 9
READER_SECRET, WEBHOOK_SECRET = "demo-ledger", "demo-webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The environment of the demo."""

    layout: Layout
    tenant_id: str
    folder: Path
    """The folder `demo` beside the user's files, below the platform's project."""
    login: Login
    """Login of the database server's administrator."""
    api: Api
    words: Words
    invocation: Invocation
    show: Callable[[str], None]
    """Prints a line of the result."""
    stays: bool
    """Whether the platform runs after the demo."""
    receives_on: bool
    """Whether this process continues, and with it the receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The endings of both runs."""

    endings: tuple[Ending, Ending]
    reports: tuple[Path, Path]
    mail: Path | None


def play(scene: Scene) -> Played:
    """Perform both runs and check every number.

    Raises:
        DemoFailedError: a step failed, or a number differs.
        DatarecsError: the API refused a request or did not answer.
    """
    receiver = Receiver(keys=(), clock=SystemClock())
    receiver.open()
    with timed(scene, "demo data: ledger (Postgres, 1,000 rows), exports (Parquet, 1,005)"):
        places = _prepare(scene, receiver)
    receiver.keys = (secret_key(_signing_secret(scene)),)
    first = run_job(scene, declarations.JOB, number=1, wanted=expected.FIRST)
    _check_gap(first)
    mail = _show_mail(scene, first.run_id)
    _show_webhook(scene, receiver, first.run_id)
    scene.show("  ... the demo corrects the exports and runs again")
    write_exports(scene.folder / declarations.EXPORTS, exports(corrected=True))
    second = run_job(scene, declarations.JOB, number=2, wanted=expected.SECOND)
    _show_webhook(scene, receiver, second.run_id)
    if not scene.receives_on:
        _declare_surroundings(scene, replace(places, listening=False))
        receiver.close()
    reports = (saved_report(scene, first, 1), saved_report(scene, second, 2))
    dot = f" {scene.words.dot} "
    scene.show(f"  report    {dot.join(shown_path(one) for one in reports)}")
    edit = f"edit {shown_path(scene.folder / declarations.JOB_FILE)}"
    steps = (f"datarecs diff {first.run_id}", edit, "datarecs down")
    scene.show(f"  next      {dot.join(steps if scene.stays else ('datarecs up', *steps))}")
    return Played(endings=(first, second), reports=reports, mail=mail)


@contextmanager
def timed(scene: Scene, text: str) -> Iterator[None]:
    """A step of the preparation; its text is printed at its end."""
    clock = SystemClock()
    began = clock.monotonic()
    yield
    took_s = clock.monotonic() - began
    scene.invocation.say(f"  {scene.words.tick} {text:64} {took_s:5.1f} s")


def _prepare(scene: Scene, receiver: Receiver) -> declarations.Places:
    """Write data, files and declarations; an endpoint with a lost secret is created again."""
    scene.folder.mkdir(parents=True, exist_ok=True)
    secrets = scene.layout.tenant_secrets / scene.tenant_id
    secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    password = LocalSecrets(secrets).password(READER_SECRET)
    places = declarations.Places(
        ledger=load_ledger(scene.login, ledger(), password),
        password_file=secrets / READER_SECRET,
        folder=scene.folder,
        receiver_url=receiver.url,
    )
    write_exports(scene.folder / declarations.EXPORTS, exports(corrected=False))
    job = scene.folder / declarations.JOB_FILE
    job.write_text(declarations.JOB_TEXT, encoding="utf-8")
    applied = _declare_surroundings(scene, places)
    known = _secret_file(scene).exists()
    if not known and not any(one.secret for one in applied):
        _forget_endpoint(scene)
        applied = _declare_surroundings(scene, places)
    for one in applied:
        if one.secret is not None:
            LocalSecrets(scene.layout.secrets).put(WEBHOOK_SECRET, one.secret)
    apply_file(scene, str(job))
    return places


def _declare_surroundings(scene: Scene, places: declarations.Places) -> list[Applied]:
    around = scene.folder / declarations.SURROUNDINGS_FILE
    around.write_text(declarations.surroundings_text(places), encoding="utf-8")
    return apply_file(scene, str(around))


def apply_file(scene: Scene, file: str) -> list[Applied]:
    """Raises DemoFailedError for faults and refusals."""
    declared = check_for_server([file], scene.invocation)
    if not declared:
        raise DemoFailedError(step="its declarations", reason="they have the faults above")
    applied = list(apply_each(scene.api, declared))
    for one in applied:
        if one.refusal is not None:
            raise DemoFailedError(step=f"applying {one.name}", reason=str(one.refusal))
    return applied


def _forget_endpoint(scene: Scene) -> None:
    request = ApiRequest(
        method="DELETE",
        path=path_of("webhook-endpoints", declarations.ENDPOINT),
        headers={"If-Match": "*"},
    )
    scene.api.send(request)


def _secret_file(scene: Scene) -> Path:
    return LocalSecrets(scene.layout.secrets).path(WEBHOOK_SECRET)


def _signing_secret(scene: Scene) -> str:
    return _secret_file(scene).read_text(encoding="utf-8")


def run_job(scene: Scene, job: str, *, number: int, wanted: Mapping[str, object]) -> Ending:
    """Run a job of the namespace default and show its end.

    Raises:
        DemoFailedError: it has no verdict, or a number of its comparison is not the wanted one.
    """
    compared: list[Json] = []

    def happened(entry: Json) -> None:
        if entry["type"] == expected.COMPARED:
            compared.append(entry)

    made = trigger(scene.api, (DEFAULT_NAMESPACE, job), {})
    view = ProgressView(
        screen=Screen(quiet=True, moves=False), words=scene.words, happened=happened
    )
    run = wait_for_end(scene.api, str(made["run_id"]), view, limit_s=RUN_LIMIT_S)
    ending = ending_of(scene.api, run)
    head, *rest = ending_text(ending, scene.words, scene.invocation)
    scene.show(f"  run {number}  {head}")
    for line in rest:
        scene.show(line)
    if not compared or ending.facts is None:
        raise DemoFailedError(step=f"run {number}", reason=f"it ended {ending.outcome}")
    wrong = list(expected.departures(wanted, compared[-1].get("data")))
    if wrong:
        raise DemoFailedError(step=f"run {number}", reason="; ".join(wrong))
    return ending


def _check_gap(ending: Ending) -> None:
    facts = ending.facts
    gaps = [
        measure.gaps[1]
        for stage in (facts.stages if facts else ())
        if stage.executed is not None
        for measure in stage.executed.measures
    ]
    if gaps != [expected.GAP]:
        raise DemoFailedError(step="run 1", reason=f"the gap is {gaps} instead of {expected.GAP}")


def _show_mail(scene: Scene, run_id: str) -> Path:
    """Wait for the one mail about the run in the maildir."""
    folder, clock = scene.layout.mail / "new", SystemClock()
    deadline = clock.monotonic() + ARRIVAL_LIMIT_S
    while clock.monotonic() < deadline:
        mails = sorted(folder.glob(f"run.{run_id}.*"))
        if mails:
            scene.show(f"{INDENT}mail     to {declarations.RECIPIENT}   {shown_path(mails[0])}")
            return mails[0]
        clock.wait(POLL_EVERY)
    raise DemoFailedError(step="the mail", reason=f"none arrived within {ARRIVAL_LIMIT_S:.0f} s")


def _show_webhook(scene: Scene, receiver: Receiver, run_id: str) -> None:
    def of_this_run(received: Received) -> bool:
        is_finalised = received.event_type == declarations.FINALISED
        return is_finalised and received.data.get("run_id") == run_id

    received = receiver.wait_for(of_this_run, limit_s=ARRIVAL_LIMIT_S)
    if received is None:
        raise DemoFailedError(
            step="the webhook", reason=f"none arrived within {ARRIVAL_LIMIT_S:.0f} s"
        )
    if not received.verified:
        raise DemoFailedError(step="the webhook", reason=received.fault or "it was not signed")
    text = "run.finalised delivered, signature verified"
    scene.show(f"{INDENT}webhook  {text}, attempt {received.attempt}")


def saved_report(scene: Scene, ending: Ending, number: int) -> Path:
    target = scene.layout.root / "demo" / f"report-{number}.html"
    save_report(scene.api, ending.run_id, target)
    return target


def shown_path(path: Path) -> str:
    """The path relative to the working folder if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)

"""The capture-worker in mode `remote`: slots and renewals over the control API, nothing else."""

from datetime import timedelta

from datarecs_application.capturing.renewals import WorkRenewals
from datarecs_application.capturing.wire import REMOTE_KINDS
from datarecs_capture_worker.settings import Settings
from datarecs_capture_worker.slots import (
    GRACE,
    SlotParts,
    child_template,
    enabled_kinds,
    work_slots,
)
from datarecs_core.errors.process import SettingsError
from datarecs_events.catalogue import Service
from datarecs_outbound.issuer import Issuer, MachineToken, plain_client
from datarecs_outbound.worker_api import RemoteControl, WorkerCalls
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.scratch import ScratchFolder

ANSWER = timedelta(minutes=2)
"""Of a report with many files; the lease is renewed meanwhile."""
RENEWAL = timedelta(seconds=10)
"""Of a renewal: several fit into the time of a lease."""
_NO_KIND = (
    "DATARECS_EXECUTOR__…__ENABLED: no kind is left for a remote worker, which takes none of"
    " snapshot_finalize"
)


def build_remote(settings: Settings) -> Process:
    """Everything this process runs: no database, no store of artefacts, no upkeep.

    Raises SettingsError if no kind of work is left.
    """
    clock, metrics = SystemClock(), PrometheusMetrics()
    kinds = REMOTE_KINDS.intersection(enabled_kinds(settings.executor))
    if not kinds:
        raise SettingsError((_NO_KIND,))
    token = _machine_token(settings, clock)
    calls = _calls(settings, token, clock, answer=ANSWER)
    pulse = _calls(settings, token, clock, answer=RENEWAL)
    renewals = WorkRenewals(
        control=RemoteControl(calls=pulse), clock=clock, metrics=metrics, wake=Latch()
    )
    scratch = ScratchFolder(settings.worker.scratch_dir)
    template = child_template(scratch)
    slots = work_slots(
        settings,
        kinds,
        SlotParts(
            control=RemoteControl(calls=calls),
            renewals=renewals,
            scratch=scratch,
            metrics=metrics,
            template=template,
        ),
    )
    return Process(
        name=Service.CAPTURE_WORKER,
        loops=(renewals, *slots),
        ready_when={"control_api": calls.ready},
        start_checks=(scratch.claim,),
        wakes=[*(slot.rhythm.wake for slot in slots), renewals.wake],
        closing=(calls.close, pulse.close, token.issuer.close, template.close, scratch.release),
        grace=GRACE,
        side=settings.side,
        metrics=metrics,
    )


def _machine_token(settings: Settings, clock: SystemClock) -> MachineToken:
    oidc = settings.worker.oidc
    secret = oidc.client_secret
    return MachineToken(
        issuer=Issuer(str(oidc.issuer), plain_client(oidc.connect_timeout)),
        client_id=oidc.client_id,
        client_secret="" if secret is None else secret.get_secret_value(),
        skew=oidc.token_refresh_skew,
        clock=clock,
    )


def _calls(
    settings: Settings, token: MachineToken, clock: SystemClock, *, answer: timedelta
) -> WorkerCalls:
    worker = settings.worker
    return WorkerCalls(
        url=str(worker.api_url),
        client=plain_client(worker.oidc.connect_timeout, read_s=answer.total_seconds()),
        token=token,
        header=worker.token_header,
        clock=clock,
    )

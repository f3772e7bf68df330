"""Sweep a retention policy in short steps: artefacts first, then rows.

A step examines at most 200 objects and removes those that the policy selects. Their artefacts go
before their rows, so a crash between leaves rows that the next step selects again, and never an
artefact without a row. Which objects are selected is said in `ports.retention`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from datarecs_application.ports.outside import BlobStores, Clock, Metrics
from datarecs_application.ports.retention import Examined, Place, Selection, SweepState
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.resources import observe_resource
from datarecs_application.stored_specs import UNREADABLE_AGAIN, StoredSpecs
from datarecs_core.catalog.layout import all_differences, run_prefix
from datarecs_core.resources.resource import Resource
from datarecs_core.retention.policy import RetentionPolicy, RunLifetime, Target
from datarecs_core.values import ResourceUid, RunId, TenantId, instant_text

log = structlog.get_logger()

BATCH = 200
BUDGET = timedelta(milliseconds=500)
"""Of one pass over a policy; the claims of other policies come between passes."""
STORE_AWAY = (
    "the store of artefacts cannot be used; the sweep continues when it can. The reason is in the "
    "log of the resource-controller"
)
_ARTEFACTS = {Target.RUNS: run_prefix, Target.DIFFERENCES: all_differences}
"""Targets with artefacts, and the prefix of those of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What one step examined."""

    resource: Resource
    policy: RetentionPolicy
    target: Target
    examined: Examined


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeping:
    """What sweeps need from outside."""

    unit: UnitOfWork
    policies: StoredSpecs[RetentionPolicy]
    blobs: BlobStores
    clock: Clock
    metrics: Metrics

    def work(self, tenant: TenantId, uid: ResourceUid) -> None:
        """Continue the sweep of a policy for half a second, or to its end; safe to repeat.

        Raises:
            BlobStoreUnavailableError: artefacts cannot be removed; their rows stay.
        """
        ends = self.clock.monotonic() + BUDGET.total_seconds()
        while self._step(tenant, uid, ends):
            pass

    def report_problem(self, tenant: TenantId, uid: ResourceUid) -> None:
        """Show in the status of the policy that its sweep waits for the store of artefacts."""
        with self.unit.begin(tenant, feed=1) as tx:
            resource = tx.resources.get_by_uid(uid)
            if resource is not None:
                status = {**resource.status, "problem": STORE_AWAY}
                observe_resource(tx, uid, status, observed_generation=resource.generation)

    def _step(self, tenant: TenantId, uid: ResourceUid, ends: float) -> bool:
        """Whether the pass goes on."""
        with self.unit.begin(tenant) as tx:
            step = self._examine(tx, uid)
        if step is None:
            return False
        due = step.examined.due
        if not step.policy.dry_run:
            due = self._without_artefacts(tenant, step.target, due, ends)
        with self.unit.begin(tenant, feed=1) as tx:
            return self._record(tx, step, due, ends)

    def _examine(self, tx: Transaction, uid: ResourceUid) -> _Step | None:
        """None for a policy that is gone, is no longer due, or cannot be read.

        One that cannot be read is due again in ten minutes: the next release may read it.
        """
        state = tx.retention.for_update(uid)
        if state is None:
            return None
        resource = tx.resources.get_by_uid(uid)
        policy = None if resource is None else self.policies.of(resource)
        first = policy and policy.first_target()
        if resource is None or resource.deletion_at is not None or not policy or not first:
            is_unreadable = resource is not None and policy is None
            again = tx.now + UNREADABLE_AGAIN if is_unreadable else None
            tx.retention.save(replace(state, due_at=again))
            return None
        if state.generation != resource.generation or state.target is None:
            # A changed declaration begins anew.
            state = replace(
                state, generation=resource.generation, target=first, place=None, counts={}
            )
            tx.retention.save(state)
        target = state.target or first
        selection = _selection(resource, policy, target, tx)
        examined = tx.retention.examine(selection, after=state.place, limit=BATCH)
        return _Step(resource=resource, policy=policy, target=target, examined=examined)

    def _without_artefacts(
        self, tenant: TenantId, target: Target, due: Sequence[Place], ends: float
    ) -> Sequence[Place]:
        """Those without artefacts now: all, or as many as the time allows, at least one."""
        prefix_of = _ARTEFACTS.get(target)
        if prefix_of is None:
            return due
        blobs = self.blobs.of(tenant)
        for number, place in enumerate(due, start=1):
            blobs.delete_prefix(prefix_of(tenant, RunId(place.id)))
            if self.clock.monotonic() >= ends:
                return due[:number]
        return due

    def _record(self, tx: Transaction, step: _Step, due: Sequence[Place], ends: float) -> bool:
        """Remove the rows, and store how far the sweep has come."""
        resource, policy, target = step.resource, step.policy, step.target
        is_partial = len(due) < len(step.examined.due)
        place = due[-1] if is_partial else step.examined.last
        following = target if place is not None else policy.target_after(target)
        removed = len(due)
        if not policy.dry_run:
            # Also after an edit: the artefacts are gone.
            removed = tx.retention.remove(target, due)
            self.metrics.count("cleanup_total", removed, what=target.value)
        if following is None and not self._is_current(tx, resource):
            return True
        state = tx.retention.for_update(resource.uid)
        if state is None or state.generation != resource.generation or state.target is not target:
            return True
        counts = {**state.counts, target.value: state.counts.get(target.value, 0) + removed}
        if following is None:
            self._end(tx, resource, policy, counts)
            return False
        goes_on = self.clock.monotonic() < ends
        due_at = state.due_at if goes_on else tx.now
        tx.retention.save(
            replace(state, due_at=due_at, target=following, place=place, counts=counts)
        )
        return goes_on

    def _is_current(self, tx: Transaction, resource: Resource) -> bool:
        """Lock the declaration, as writes of users do before they lock the state.

        After an edit the sweep does not end: it begins anew.
        """
        stored = tx.resources.for_update(resource.kind, resource.namespace, resource.name)
        return stored is not None and stored.generation == resource.generation

    def _end(
        self,
        tx: Transaction,
        resource: Resource,
        policy: RetentionPolicy,
        counts: dict[str, int],
    ) -> None:
        next_sweep = tx.now + policy.sweep_interval
        status = {
            "last_sweep_at": instant_text(tx.now),
            "next_sweep_at": instant_text(next_sweep),
            "would_delete" if policy.dry_run else "deleted": counts,
        }
        observe_resource(tx, resource.uid, status, observed_generation=resource.generation)
        tx.retention.save(SweepState(uid=resource.uid, due_at=next_sweep))
        self.metrics.count("retention_sweeps_total")
        log.info("retention_swept", policy=resource.name, dry_run=policy.dry_run, **counts)


def _selection(
    resource: Resource, policy: RetentionPolicy, target: Target, tx: Transaction
) -> Selection:
    lifetime = policy.targets.of(target)
    if lifetime is None:
        raise ValueError("a sweep examines targets of its policy")
    return Selection(
        target=target,
        namespace=resource.namespace,
        job_labels=policy.job_labels,
        deleted_jobs=policy.deleted_jobs,
        before=tx.now - lifetime.ttl,
        keep_last=lifetime.keep_last if isinstance(lifetime, RunLifetime) else 0,
    )

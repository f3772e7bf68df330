"""A client of the server: start a run, wait for its end, cancel it, read its differences.

It uses the client of the command line, so that retries and refusals are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, Self, cast

import pyarrow as pa

from datarecs.errors import explained
from datarecs_cli.client import Api, Json
from datarecs_cli.config import access_for
from datarecs_cli.exporting import arrow_table
from datarecs_cli.follow import Ended, Pump, follow
from datarecs_cli.refusals import WaitedTooLongError
from datarecs_cli.server_differences import listed_differences
from datarecs_cli.triggering import trigger
from datarecs_cli.watching import cancel
from datarecs_core.resources.resource import DEFAULT_NAMESPACE
from datarecs_core.runs.model import RunStatus

Verdict = Literal["MATCHED", "UNMATCHED"]
_CHECK_S = 0.5
"""Longest time between an interrupt and its effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the server at one moment."""

    id: str
    job: str
    status: str
    """Such as QUEUED, RUNNING, COMPLETED, ERRORED or CANCELLED."""
    verdict: Verdict | None
    """None without a result."""
    fields: Mapping[str, object] = field(repr=False)
    """Everything that the server says about it, as in the API."""

    @property
    def has_ended(self) -> bool:
        return RunStatus(self.status).is_terminal


class Client:
    """One server with one key; close it, or use it in a `with` block."""

    def __init__(self, server: str, api_key: str) -> None:
        """No request is sent yet.

        Args:
            server: such as `https://datarecs.example.com`; http only on this machine.
            api_key: as created by `datarecs key create`.

        Raises:
            DatarecsError: the address or the key cannot be used.
        """
        with explained():
            self._api = Api(access_for(server, api_key))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Safe to repeat."""
        self._api.close()

    def trigger(
        self,
        job: str,
        parameters: Mapping[str, object] | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        key: str | None = None,
    ) -> Run:
        """Start a run of a job.

        Args:
            job: name of the job.
            parameters: values by name; default those of the job.
            namespace: of the job.
            key: with the same key again no second run is created; default a new key per call.

        Raises:
            DatarecsError: the server refused it, or does not answer.
        """
        body = {} if parameters is None else {"parameters": dict(parameters)}
        with explained():
            return _run(trigger(self._api, (namespace, job), body, key=key))

    def wait(self, run: Run | str, timeout: float | None = None) -> Run:
        """Wait until the run has ended, with any status, across lost connections.

        Args:
            run: a run or its id.
            timeout: seconds; default no limit.

        Raises:
            DatarecsError: `WAITED_TOO_LONG` after the timeout, and the run continues; or the run
                is unknown, or the server has not answered for ten minutes.
        """
        run_id = _id(run)
        with explained():
            self._follow(run_id, timeout)
            return _run(self._api.get("runs", run_id))

    def _follow(self, run_id: str, timeout: float | None) -> None:
        clock = self._api.clock
        began = clock.monotonic()
        pump = Pump(follow(self._api, run_id))
        try:
            while not isinstance(pump.next(timedelta(seconds=_CHECK_S)), Ended):
                if timeout is not None and clock.monotonic() - began >= timeout:
                    raise WaitedTooLongError(what=f"run {run_id}", seconds=timeout)
        finally:
            pump.close()

    def cancel(self, run: Run | str, *, reason: str | None = None) -> Run:
        """Request the cancellation; a run that has ended does not change. Safe to repeat.

        The platform ends the run soon; `wait` returns it then.

        Raises:
            DatarecsError: the run is unknown, or the key may not cancel it.
        """
        run_id = _id(run)
        with explained():
            answer = cancel(self._api, run_id, reason=reason)
            return _run(answer or self._api.get("runs", run_id))

    def differences(self, run: Run | str) -> pa.Table:
        """The differences of a run with a result: at most 1,000, the largest first.

        Returns:
            The columns of `Comparison.differences`.

        Raises:
            ArgumentError: the run has no result.
            DatarecsError: the run is unknown, or the key may not read values.
        """
        with explained():
            layout, rows = listed_differences(self._api, _id(run), {})
            return arrow_table(rows, layout)


def _id(run: Run | str) -> str:
    return run.id if isinstance(run, Run) else run


def _run(row: Json) -> Run:
    result = row.get("result")
    return Run(
        id=str(row["run_id"]),
        job=str(row.get("job") or ""),
        status=str(row["status"]),
        verdict=None if result is None else cast("Verdict", str(result)),
        fields=row,
    )

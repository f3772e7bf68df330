"""Concurrent webhook attempts: implements the port WebhookClient with the guarded HTTP call.

It has an event loop on a separate thread, so that the rest of the process stays synchronous. The
results are data; core decides their meaning.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from queue import Empty, SimpleQueue

from datarecs_application.ports.delivery import OutgoingWebhook, WebhookReport
from datarecs_core.egress.urls import UrlRules, check_url
from datarecs_core.errors.security import UrlRefusedError
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, outcome_of_status, wish_of
from datarecs_outbound.dialling import Failure
from datarecs_outbound.http import Answered, GuardedHttp, HttpCall, NotAnswered

_START_S = 10.0
_CLOSE_S = 5.0


class GuardedWebhookClient:
    """Implements the port WebhookClient. Call `start` and `ended` from one thread."""

    def __init__(self, make_http: Callable[[], GuardedHttp], *, rules: UrlRules) -> None:
        """Start the loop's thread, without a connection.

        Args:
            make_http: called once, in the event loop that uses it.
            rules: rules for URLs, which are checked again at each send.
        """
        self._rules = rules
        self._reports: SimpleQueue[WebhookReport] = SimpleQueue()
        self._in_flight = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="webhook-attempts", daemon=True
        )
        self._thread.start()
        self._http = asyncio.run_coroutine_threadsafe(_made(make_http), self._loop).result(_START_S)

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def start(self, request: OutgoingWebhook) -> None:
        self._in_flight += 1
        asyncio.run_coroutine_threadsafe(self._attempt(request), self._loop)

    def ended(self, timeout: timedelta) -> list[WebhookReport]:
        reports: list[WebhookReport] = []
        try:
            reports.append(self._reports.get(timeout=max(0.0, timeout.total_seconds())))
            while True:
                reports.append(self._reports.get_nowait())
        except Empty:
            self._in_flight -= len(reports)
            return reports

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self._loop.close()

    async def _shut(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    async def _attempt(self, request: OutgoingWebhook) -> None:
        try:
            report = await self._reported(request)
        except Exception as cause:  # noqa: BLE001  an attempt must end, or its slot is never free
            end = AttemptEnd(outcome=Outcome.PROTOCOL_ERROR, error=type(cause).__name__)
            report = WebhookReport(ticket=request.ticket, end=end)
        self._reports.put(report)

    async def _reported(self, request: OutgoingWebhook) -> WebhookReport:
        try:
            target = check_url(request.url, self._rules)
        except UrlRefusedError as cause:
            end = AttemptEnd(outcome=Outcome.BLOCKED_ADDRESS, error=cause.code.name)
            return WebhookReport(ticket=request.ticket, end=end)
        answer = await self._http.call(
            HttpCall(
                method=request.method,
                target=target,
                headers=request.headers,
                body=request.body,
                timeout=request.timeout,
            )
        )
        if isinstance(answer, NotAnswered):
            return _not_answered(request, answer)
        return _answered(request, answer)


async def _made(make_http: Callable[[], GuardedHttp]) -> GuardedHttp:
    return make_http()


def _answered(request: OutgoingWebhook, answer: Answered) -> WebhookReport:
    outcome = outcome_of_status(answer.status)
    headers = {name.lower(): value for name, value in answer.headers}
    return WebhookReport(
        ticket=request.ticket,
        end=AttemptEnd(
            outcome=outcome,
            status=answer.status,
            retry_after=headers.get("retry-after"),
            wish=wish_of(headers.get("webhook-delivery")),
            error="" if outcome is Outcome.OK else f"HTTP {answer.status}",
        ),
        phases=answer.phases,
        response_headers=answer.headers,
        response_body=answer.body,
        truncated=answer.truncated,
    )


_OUTCOMES: Mapping[Failure, Outcome] = {failure: Outcome(failure.value) for failure in Failure}


def _not_answered(request: OutgoingWebhook, answer: NotAnswered) -> WebhookReport:
    return WebhookReport(
        ticket=request.ticket,
        end=AttemptEnd(
            outcome=_OUTCOMES[answer.failure], error=f"{answer.error} (phase {answer.phase})"
        ),
        phases=answer.phases,
        address_class=answer.address_class,
    )

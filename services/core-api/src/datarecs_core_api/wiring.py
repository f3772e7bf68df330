"""core-api, joined top to bottom: REST and live views over the platform database."""

import threading

import uvicorn
from fastapi import FastAPI

from datarecs_application.ports.outside import Wake
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import SettingsError
from datarecs_core_api.app import build as build_app
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.dependencies import Ports, RunsChanged
from datarecs_core_api.pagination import Cursors
from datarecs_core_api.settings import Settings
from datarecs_events.catalogue import Service
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids, random_bytes
from datarecs_runtime.derived_keys import derived_key
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.secrets import TenantSecrets
from datarecs_runtime.tracing import child_of
from datarecs_storage.blobs import open_blob_stores

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Serving:
    """A loop around uvicorn, so that the process drains it like any other."""

    name = "http"

    def __init__(self, app: FastAPI, *, host: str, port: int) -> None:
        config = uvicorn.Config(
            app, host=host, port=port, log_config=None, access_log=False, server_header=False
        )
        self._server = uvicorn.Server(config)

    def ready(self) -> str | None:
        return None if self._server.started else "not listening yet"

    def run(self, stop: Wake) -> None:
        def end() -> None:
            stop.wait()
            self._server.should_exit = True

        threading.Thread(target=end, name="http_stop", daemon=True).start()
        self._server.run()


def build(settings: Settings) -> Process:
    """Everything this process runs; starts nothing."""
    if settings.profile is Profile.LOCAL and settings.api.host not in LOOPBACK:
        raise SettingsError(
            ("DATARECS_API__HOST leaves the loopback, which needs DATARECS_PROFILE=server",)
        )
    clock, metrics = SystemClock(), PrometheusMetrics()
    url = settings.database.url.get_secret_value()
    database = Database(
        url,
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.CORE_API,
    )
    database.refuse_unsafe_login()
    changed = RunsChanged()
    ports = _ports(settings, database, changed)
    ready_when = {"database": database.ready}
    app = build_app(ports, Authenticator(ports.finder, clock))
    app.state.ready_when = ready_when
    serving = Serving(app, host=settings.api.host, port=settings.api.port)
    listener = Listener(url, lambda _, payload: changed.tell(payload), channels=("datarecs_run",))
    return Process(
        name=Service.CORE_API,
        loops=(listener, serving),
        ready_when={**ready_when, "http": serving.ready},
        closing=(database.close,),
        side=settings.side,
        metrics=metrics,
    )


def _ports(settings: Settings, database: Database, changed: RunsChanged) -> Ports:
    ids = UuidV7Ids()
    secrets = TenantSecrets.of(settings.secrets)
    return Ports(
        unit=PostgresUnitOfWork(database, ids),
        queries=PostgresQueries(database),
        finder=PostgresWorkFinder(database),
        blobs=open_blob_stores(settings.blob.url),
        secrets=secrets,
        clock=SystemClock(),
        ids=ids,
        random_bytes=random_bytes,
        cursors=Cursors(derived_key(settings.secrets, tenant=None, purpose="cursors")),
        runs_changed=changed,
        profile=settings.profile,
        egress=settings.egress,
        reference_rules=secrets.rules,
        traceparent=child_of,
    )

"""A loop around uvicorn, so that the process drains it like any other.

Separate from `wiring` because it decides how the server behaves: which protocol limits its clients,
what ends at SIGTERM and how long that may take.
"""

import gc
import math
import ssl
import threading
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from datarecs_application.ports.outside import Metrics, Wake
from datarecs_core_api.bounded_http import BoundedConfig, BoundedHttp, Bounds
from datarecs_core_api.following import Following
from datarecs_core_api.sockets import MAX_MESSAGE_BYTES
from datarecs_runtime.api_sections import Api
from datarecs_runtime.certificates import server_context

DRAIN_S = 10
"""Running requests get this time; below the grace of the process."""


def _server_context(certificate: Path, key: Path, *_: object) -> ssl.SSLContext:
    """In the form of uvicorn, which also passes its configuration."""
    return server_context(certificate, key)


class Serving:
    """Serves until a stop is requested; then ends followers and finishes the rest."""

    name = "http"

    def __init__(
        self, app: FastAPI, following: Following, *, settings: Api, metrics: Metrics
    ) -> None:
        certificate, key = settings.tls_cert_file, settings.tls_key_file
        config = BoundedConfig(
            app,
            bounds=Bounds(settings=settings, metrics=metrics),
            host=settings.host,
            port=settings.port,
            http=BoundedHttp,
            ssl_context_factory=(
                partial(_server_context, certificate, key) if certificate and key else None
            ),
            timeout_keep_alive=math.ceil(settings.idle_timeout.total_seconds()),
            ws="websockets-sansio",
            ws_max_size=MAX_MESSAGE_BYTES,
            ws_ping_interval=following.pace.ping.total_seconds(),
            ws_ping_timeout=following.pace.patience.total_seconds(),
            ws_per_message_deflate=False,  # frames are small, and each socket would keep a window
            lifespan="off",
            proxy_headers=False,  # `peers` decides which address is trusted
            server_header=False,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._following = following
        self._server = uvicorn.Server(config)

    def ready(self) -> str | None:
        return None if self._server.started else "not listening yet"

    def run(self, stop: Wake) -> None:
        def end() -> None:
            stop.wait()
            self._following.end()
            self._server.should_exit = True

        threading.Thread(target=end, name="http_stop", daemon=True).start()
        # Objects of start-up are never freed: collecting them again stops all streams for 100 ms.
        gc.collect()
        gc.freeze()
        self._server.run()

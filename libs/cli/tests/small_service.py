"""A real process that stands for a service: a side port, an end on SIGTERM, or an early death.

Run with the environment of the stack: DATARECS_SIDE__PORT; `EARLY_DEATH` makes it exit.
"""

import http.server
import signal
import sys
import threading

from datarecs_runtime.environment import process_environment


class Side(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: the log holds what the test checks."""


def main() -> None:
    environment = process_environment()
    if environment.get("EARLY_DEATH"):
        print("cannot start: the test says so", flush=True)
        sys.exit(7)
    port = int(environment["DATARECS_SIDE__PORT"])
    server = http.server.HTTPServer(("127.0.0.1", port), Side)
    signal.signal(
        signal.SIGTERM,
        lambda _number, _frame: threading.Thread(target=server.shutdown).start(),
    )
    print(f"serving on {port}", flush=True)
    server.serve_forever()
    print("released everything", flush=True)


if __name__ == "__main__":
    main()

"""The system's Chromium without a window, controlled over a pipe: no driver and no port.

Pages are files; their other requests are recorded, so that a test can refuse them.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_AS_THREE_AND_FOUR = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads its descriptor 3 and writes its descriptor 4."""
_SILENCE_S = 60
"""Time limit of an answer before the test fails."""


class BrowserSilentError(RuntimeError):
    """The browser ended, or gave no answer in time."""


def browser_program() -> str | None:
    """Path of the installed browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab; `requests` lists every requested address."""

    def __init__(self, pipe: "_Pipe", session: str) -> None:
        self._pipe, self._session = pipe, session
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self._send_command(f"{domain}.enable")

    def _send_command(self, method: str, **parameters: Any) -> Json:  # noqa: ANN401  any JSON
        return self._pipe.send_command(method, parameters, self._session)

    @property
    def requests(self) -> list[str]:
        sent = self._pipe.events("Network.requestWillBeSent", self._session)
        return [str(each["request"]["url"]) for each in sent]

    @property
    def complaints(self) -> list[str]:
        """Errors of scripts and of the content policy."""
        logged = self._pipe.events("Log.entryAdded", self._session)
        thrown = self._pipe.events("Runtime.exceptionThrown", self._session)
        return [each["entry"]["text"] for each in logged] + [str(each) for each in thrown]

    def set_media(self, *, width: int = 1200, scheme: str = "light", scripts: bool = True) -> None:
        """Set width in pixels, colour scheme, and whether scripts run, for the next page."""
        self._send_command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send_command("Emulation.setEmulatedMedia", features=features)
        self._send_command("Emulation.setScriptExecutionDisabled", value=not scripts)

    def open(self, path: Path) -> None:
        """Load a file and wait until it has loaded."""
        before = len(self._pipe.events("Page.loadEventFired", self._session))
        self._send_command("Page.navigate", url=path.resolve().as_uri())
        self._pipe.wait("Page.loadEventFired", self._session, more_than=before)

    def value(self, expression: str) -> Any:  # noqa: ANN401  any JSON
        """The value of a JavaScript expression, in the context of the page's scripts."""
        answer = self._send_command("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def roles(self) -> list[tuple[str, str]]:
        """Role and name of everything that a screen reader reads, in its order."""
        nodes = self._send_command("Accessibility.getFullAXTree")["nodes"]
        return [
            (str(node["role"]["value"]), str(node.get("name", {}).get("value", "")))
            for node in nodes
            if not node["ignored"]
        ]

    def screenshot(self, target: Path, *, whole: bool = True) -> None:
        """A PNG of the whole page, or of the first screen."""
        shot = self._send_command(
            "Page.captureScreenshot", captureBeyondViewport=whole, format="png"
        )
        target.write_bytes(base64.b64decode(shot["data"]))

    def print(self, target: Path) -> None:
        """A PDF on A4, as a person prints it."""
        options = {"paperWidth": 8.27, "paperHeight": 11.7, "preferCSSPageSize": True}
        printed = self._send_command("Page.printToPDF", printBackground=False, **options)
        target.write_bytes(base64.b64decode(printed["data"]))


class _Pipe:
    """Commands and events of the browser, which are JSON between zero bytes."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest, self._last = b"", 0
        self._events: list[Json] = []

    def send_command(self, method: str, parameters: Json, session: str | None = None) -> Json:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise BrowserSilentError(f"{method}: {answer['error']}")
                result: Json = answer["result"]
                return result

    def events(self, method: str, session: str) -> list[Json]:
        """Parameters of the events of a tab so far."""
        return [
            each["params"]
            for each in self._events
            if each["method"] == method and each.get("sessionId") == session
        ]

    def wait(self, method: str, session: str, *, more_than: int) -> None:
        while len(self.events(method, session)) <= more_than:
            self._read()

    def _read(self) -> Json:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], _SILENCE_S)
            part = os.read(self._from, 1 << 20) if ready else b""
            if not part:
                raise BrowserSilentError("the browser ended or is silent")
            self._rest += part
        written, _, self._rest = self._rest.partition(b"\0")
        message: Json = json.loads(written)
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def open_browser(program: str) -> Iterator[Page]:
    """A tab of a new browser, which ends with the block."""
    commands, answers = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(
        prefix="datarecs-browser-", ignore_cleanup_errors=True
    ) as profile:
        started = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _AS_THREE_AND_FOUR,
                str(commands[0]),
                str(answers[1]),
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={profile}",
            ],
            pass_fds=(commands[0], answers[1]),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        try:
            pipe = _Pipe(commands[1], answers[0])
            target = pipe.send_command("Target.createTarget", {"url": "about:blank"})["targetId"]
            attached = pipe.send_command(
                "Target.attachToTarget", {"targetId": target, "flatten": True}
            )
            yield Page(pipe, attached["sessionId"])
        finally:
            os.close(commands[1])
            os.close(answers[0])
            started.terminate()
            started.wait(_SILENCE_S)

"""Clients of live streams in a separate process, which records the times of received events.

A separate module because all benchmarks of the live feed must follow in the same way; in one
process with the writers, the clients would wait for these instead of for core-api. Times are those
of the machine's one monotonic clock.
"""

import asyncio
import gc
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

EVENT_ID = re.compile(rb'"id":"([0-9a-f-]{36})"')
Receipt = tuple[str, float, bool]
"""An event's id, when it was read, and whether by a client of the whole tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One stream: its key and the followed path."""

    key: str
    path: str

    @property
    def is_wide(self) -> bool:
        return self.path.endswith("/events/stream")


async def follow(
    port: int, client: Client, begun: asyncio.Semaphore, receipts: list[Receipt]
) -> None:
    """Note every event until the stream ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"GET {client.path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {client.key}\r\n\r\n"
    )
    writer.write(head.encode())
    if b" 200 " not in await reader.readline():
        raise RuntimeError("a stream was refused")
    while not (await reader.readline()).startswith(b"retry"):
        pass
    begun.release()
    while line := await reader.readline():
        if line.startswith(b"data: ") and (match := EVENT_ID.search(line)):
            receipts.append((match[1].decode(), monotonic(), client.is_wide))
    writer.close()


async def follow_all(port: int, clients: Sequence[Client]) -> None:
    """The second process: reports that all clients have started, and their events at the end.

    Without the garbage collector: real browsers do not all pause for 150 ms at the same time.
    """
    gc.disable()
    begun, receipts = asyncio.Semaphore(0), list[Receipt]()
    tasks = [asyncio.create_task(follow(port, one, begun, receipts)) for one in clients]
    for _ in clients:
        await begun.acquire()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        if task.done():
            task.result()
            raise RuntimeError("a stream ended")
        task.cancel()
    json.dump(receipts, sys.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """The process of the clients."""

    process: subprocess.Popen[str]

    def receipts(self) -> list[Receipt]:
        """End the clients and return all they have read."""
        text, _ = self.process.communicate("end\n", timeout=60)
        return [(event_id, at, wide) for event_id, at, wide in json.loads(text)]


@contextmanager
def followers(port: int, clients: Sequence[Client]) -> Iterator[Followers]:
    """Begun for the block; clients come as one line of JSON."""
    command = [sys.executable, "-m", __name__, str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("no pipes")
    try:
        process.stdin.write(json.dumps([[one.key, one.path] for one in clients]) + "\n")
        process.stdin.flush()
        if process.stdout.readline() != "begun\n":
            raise RuntimeError("the clients did not begin")
        yield Followers(process=process)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    chosen = [Client(key=key, path=path) for key, path in json.loads(sys.stdin.readline())]
    asyncio.run(follow_all(int(sys.argv[1]), chosen))

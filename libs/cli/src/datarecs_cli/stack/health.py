"""Checks `/readyz` of a process on its side port, over loopback."""

import http.client

ANSWER_LIMIT_S = 2.0
SHOWN_CHARACTERS = 300


def silence(port: int) -> str | None:
    """Why the process on this side port is not ready; None if `/readyz` answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_LIMIT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        body = answer.read(SHOWN_CHARACTERS).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as failure:
        return f"no answer on side port {port}: {failure}"
    finally:
        connection.close()
    return None if answer.status == http.client.OK else f"/readyz answers {answer.status}: {body}"

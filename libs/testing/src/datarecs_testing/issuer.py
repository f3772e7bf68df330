"""An issuer of OpenID Connect on loopback: its configuration, its keys, tokens for clients.

A real HTTP server with real signatures, so that both ends of the control API are tested as they
are.
"""

import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from datarecs_runtime.clock import SystemClock

CLIENT, PASSWORD = "site-worker", "not-a-real-secret-of-the-site"
AUDIENCE = "datarecs-api"


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


@dataclass(frozen=True)
class SigningKey:
    """A key with its public form and its signature."""

    algorithm: str
    public: dict[str, Any]
    sign: Callable[[bytes], bytes] = field(repr=False)


def rsa_key(kid: str = "k1", *, algorithm: str = "RS256", bits: int = 2048) -> SigningKey:
    private = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    numbers = private.public_key().public_numbers()
    public = {
        "kty": "RSA",
        "kid": kid,
        "n": encoded(numbers.n.to_bytes(bits // 8)),
        "e": encoded(numbers.e.to_bytes(3)),
    }

    def sign(content: bytes) -> bytes:
        if algorithm == "RS256":
            return private.sign(content, padding.PKCS1v15(), SHA256())
        salted = padding.PSS(mgf=padding.MGF1(SHA256()), salt_length=32)
        return private.sign(content, salted, SHA256())

    return SigningKey(algorithm, public, sign)


def ec_key(kid: str = "k1") -> SigningKey:
    private = ec.generate_private_key(ec.SECP256R1())
    numbers = private.public_key().public_numbers()
    public = {
        "kty": "EC",
        "crv": "P-256",
        "kid": kid,
        "x": encoded(numbers.x.to_bytes(32)),
        "y": encoded(numbers.y.to_bytes(32)),
    }

    def sign(content: bytes) -> bytes:
        r, s = decode_dss_signature(private.sign(content, ec.ECDSA(SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)

    return SigningKey("ES256", public, sign)


def ed_key(kid: str = "k1") -> SigningKey:
    private = ed25519.Ed25519PrivateKey.generate()
    public = {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": kid,
        "x": encoded(private.public_key().public_bytes_raw()),
    }
    return SigningKey("EdDSA", public, private.sign)


def token_of(key: SigningKey, claims: dict[str, Any], **header: Any) -> str:  # noqa: ANN401  any member
    """A signed token; `header` replaces members of its header."""
    head = {"alg": key.algorithm, "kid": key.public.get("kid"), "typ": "at+jwt", **header}
    parts = [encoded(json.dumps(one).encode()) for one in (head, claims)]
    content = ".".join(parts)
    return f"{content}.{encoded(key.sign(content.encode()))}"


@dataclass(kw_only=True)
class TestIssuer:
    """What the server answers; a test changes it while it runs."""

    __test__ = False

    url: str
    key: SigningKey
    tenant: str = "*"
    roles: tuple[str, ...] = ("worker",)
    lasts_s: int = 300
    published: list[dict[str, Any]] = field(default_factory=list)
    granted: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    """Other claims of the tokens."""

    def __post_init__(self) -> None:
        self.published.append(self.key.public)

    def claims(self, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  any claim
        now = int(SystemClock().now().timestamp())
        return {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": f"service-account-{CLIENT}",
            "iat": now,
            "exp": now + self.lasts_s,
            "roles": list(self.roles),
            "datarecs_tenant": self.tenant,
            **self.changes,
            **changes,
        }

    def token(self, **changes: Any) -> str:  # noqa: ANN401  any claim
        return token_of(self.key, self.claims(**changes))

    def grant(self) -> dict[str, Any]:
        self.granted += 1
        return {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.lasts_s}

    def answer(self, path: str) -> dict[str, Any]:
        if path.endswith("/openid-configuration"):
            places = {"jwks_uri": f"{self.url}/keys", "token_endpoint": f"{self.url}/token"}
            return {"issuer": self.url, **places}
        return {"keys": self.published}


@contextmanager
def running_issuer(key: SigningKey | None = None) -> Iterator[TestIssuer]:
    """An issuer on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, issuer.answer(self.path))

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            login = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            is_good = "grant_type=client_credentials" in form and login == f"{CLIENT}:{PASSWORD}"
            if is_good:
                self._send(200, issuer.grant())
            else:
                self._send(401, {"error": "invalid_client"})

        def _send(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = TestIssuer(url=f"http://127.0.0.1:{server.server_port}", key=key or ec_key())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

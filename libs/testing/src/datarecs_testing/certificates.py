"""Certificates for test servers: valid, expired, for another host, from an unknown authority.

A separate module because webhooks, mail and databases are all tested against servers with a wrong
name or date.
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
LONG = timedelta(days=365 * 100)
HOST = "hooks.example.com"

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Authority:
    key: Key
    certificate: x509.Certificate

    def trusted(self) -> ssl.SSLContext:
        """The context of a client that trusts only this authority."""
        return ssl.create_default_context(cadata=self.pem)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server(self, folder: Path, *, host: str = HOST, valid: timedelta = LONG) -> ssl.SSLContext:
        """The context of a server, with a certificate for the host from 2020 on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file(folder, host=host, valid=valid))
        return context

    def server_file(self, folder: Path, *, host: str = HOST, valid: timedelta = LONG) -> Path:
        """Key and certificate of a server, PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        certificate = (
            _builder(host, issuer=self.certificate.subject, key=key, valid=valid)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = folder / f"{host}-{valid.days}.pem"
        file.write_bytes(_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
        return file


def an_authority() -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("test authority")
    certificate = (
        _builder("test authority", issuer=name, key=key, valid=LONG)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def _builder(
    subject: str, *, issuer: x509.Name, key: Key, valid: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(BEGIN + valid)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )

"""A throw-away certificate authority, and server certificates of every sort for one name."""

from __future__ import annotations

import ssl
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Untrusted = Literal[
    "expired",
    "not-yet-valid",
    "wrong-name",
    "common-name-only",
    "self-signed",
    "stranger",  # signed by another authority
    "old-protocol",  # a good one, but TLS 1.1
]
UNTRUSTED: tuple[Untrusted, ...] = get_args(Untrusted)
# The last is a good one, but the receiver asks for ours.
Kind = Untrusted | Literal["good", "wants-client-certificate"]


class Authority:
    """Writes PEM files into `folder`: `ca_file` to be trusted, one file with key and chain per kind."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key, self._certificate = _make_authority("RVQ test authority")
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, kind: Kind) -> ssl.SSLContext:
        """Return a server's TLS settings with a certificate of this kind."""
        path = self._folder / f"{kind}.pem"
        if not path.exists():
            path.write_bytes(self._issue(kind))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        if kind == "old-protocol":
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        if kind == "wants-client-certificate":
            context.load_verify_locations(self.ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _issue(self, kind: Kind) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, issuer_key = self._certificate.subject, self._key
        if kind == "self-signed":
            issuer, issuer_key = _name(self._name), key
        elif kind == "stranger":
            issuer_key, certificate = _make_authority("Somebody else")
            issuer = certificate.subject
        start = {"expired": -20, "not-yet-valid": 5}.get(kind, -1)
        builder = _builder(self._name, issuer, key.public_key(), start, start + 10)
        if kind != "common-name-only":
            san = "other.test" if kind == "wrong-name" else self._name
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(san)]), critical=False)
        return _key_pem(key) + builder.sign(issuer_key, hashes.SHA256()).public_bytes(
            serialization.Encoding.PEM
        )


def _make_authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    builder = _builder(name, _name(name), key.public_key(), -1, 30).add_extension(constraints, critical=True)
    return key, builder.sign(key, hashes.SHA256())


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: int, end: int
) -> x509.CertificateBuilder:
    """Return a builder of a certificate that is valid from `start` to `end`, in days from now."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=start))
        .not_valid_after(now + timedelta(days=end))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

"""Keys and certificates of the lab's cluster: one authority, client certificates, the API server's
certificate.

Made anew for each cluster and valid for a month: a lab is thrown away, not renewed. Clients are known by
the organisations (groups) and the common name (user) in their certificates.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .layout import API_SERVICE_IP

LIFETIME: Final = timedelta(days=30)
CLOCK_SLACK: Final = timedelta(minutes=10)
API_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Where a certificate and its key lie."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """The cluster's certificate authority."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "ca.crt"


def api_server_names(node_ip: str) -> list[str]:
    """Every name and address that a client may reach the API server by."""
    return [*API_NAMES, "127.0.0.1", node_ip, API_SERVICE_IP]


def create_authority(folder: Path) -> Authority:
    """A new authority, its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("kvis-lab-ca", ())
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key, folder)


def issue_client(authority: Authority, file: str, *, user: str, groups: Sequence[str] = ()) -> KeyPair:
    """A client certificate for a user in some groups."""
    return _issue(authority, file, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, ())


def issue_server(authority: Authority, file: str, *, name: str, names: Sequence[str]) -> KeyPair:
    """A server certificate; `names` are its DNS names and IP addresses."""
    return _issue(authority, file, _name(name, ()), ExtendedKeyUsageOID.SERVER_AUTH, names)


def create_signing_key(folder: Path, file: str) -> KeyPair:
    """A bare key pair: the one that signs service-account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    pair = KeyPair(folder / f"{file}.pub", folder / f"{file}.key")
    _write(pair.certificate, public)
    _write(pair.key, _pem(key))
    return pair


def alternative_names(names: Sequence[str]) -> list[x509.GeneralName]:
    """Sort names into addresses and DNS names, as a certificate must."""
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _issue(
    authority: Authority, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[str]
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, authority.certificate.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative_names(names)), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    pair = KeyPair(authority.folder / f"{file}.crt", authority.folder / f"{file}.key")
    _write(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    _write(pair.key, _pem(key))
    return pair


def _name(common_name: str, organisations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organisations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + LIFETIME)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)

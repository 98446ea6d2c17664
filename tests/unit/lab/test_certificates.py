"""The certificates say who a component is and by which names the API server is reached."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from lab.certificates import Authority, api_server_names, create_authority, issue_client, issue_server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return create_authority(tmp_path)


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_api_certificate_covers_every_way_to_reach_it(authority: Authority) -> None:
    pair = issue_server(authority, "apiserver", name="kube-apiserver", names=api_server_names("192.0.2.7"))
    names = loaded(pair.certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [ipaddress.ip_address(each) for each in ("127.0.0.1", "192.0.2.7", "10.96.0.1")] == addresses
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_a_client_certificate_carries_user_and_group(authority: Authority) -> None:
    pair = issue_client(authority, "kubelet", user="system:node:a", groups=["system:nodes"])
    subject = loaded(pair.certificate).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:a"
    assert subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"


def test_certificates_are_signed_by_the_authority(authority: Authority) -> None:
    pair = issue_client(authority, "admin", user="admin")
    loaded(pair.certificate).verify_directly_issued_by(authority.certificate)


def test_keys_can_be_read_by_their_owner_only(authority: Authority) -> None:
    pair = issue_client(authority, "admin", user="admin")
    assert pair.key.stat().st_mode & 0o077 == 0

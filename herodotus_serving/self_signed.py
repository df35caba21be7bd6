"""Self-signed certificates, for servers without a configured certificate.

Owns: the contents of the certificate. Does not own: where it is stored and how clients get it.

Invariant: a certificate is its own authority. A client that trusts it trusts this server alone, because no other
process has the key.
"""

from __future__ import annotations

import datetime
import ipaddress
import socket
import time
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def create_self_signed(names: Sequence[str], valid_for: datetime.timedelta) -> tuple[bytes, bytes]:
    """Create a key and a certificate for the given DNS names and IP addresses; return both as PEM, the key first."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{socket.gethostname()[:40]}@{int(time.time())}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + valid_for)
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(map(_to_general_name, names)))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def parse_expiry(certificate: bytes) -> datetime.datetime:
    """Return when a PEM certificate expires. Raises ValueError if it is not a certificate."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# Strict verifiers (Python's from 3.13) require key_cert_sign of an authority, TLS requires digital_signature.
_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def _to_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

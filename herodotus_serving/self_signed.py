"""A certificate of one's own, for a server that was given none.

Owns: what such a certificate says. Does not own: where it is kept, who is told of it.

Invariant: it is its own authority: who is to verify the server is given the certificate itself, and believes nothing
else by it, since its key is the server's.
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


def self_signed(names: Sequence[str], valid_for: datetime.timedelta) -> tuple[bytes, bytes]:
    """A new key and its own certificate for these names and addresses, each as PEM."""
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
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(map(_named, names)))), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_SIGNS, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def ends(certificate: bytes) -> datetime.datetime:
    """When a PEM certificate ends. ValueError where it is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


# What a strict verifier (Python's own from 3.13) asks of an authority, and TLS of a server.
_SIGNS = x509.KeyUsage(
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


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

"""Certificate authorities and certificates for tests, on disk as a cluster has them."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID


class Authority:
    """Issues certificates; `pem` is its own."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.pem = own.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
        self.file = directory / f"{name}.crt"
        self.file.write_text(self.pem)

    def client(self, user: str, *groups: str, ends_h: float = 1) -> tuple[Path, Path]:
        """Return the files of a client's certificate and key, which expires in so many hours (below 0: has expired)."""
        subject = [(x509.NameOID.ORGANIZATION_NAME, g) for g in groups] + [(x509.NameOID.COMMON_NAME, user)]
        return self._issue(user, subject, ExtendedKeyUsageOID.CLIENT_AUTH, ends_h)

    def server(self, name: str) -> tuple[Path, Path]:
        """Return the files of a server's certificate and key, for this name and for loopback."""
        return self._issue(name, [(x509.NameOID.COMMON_NAME, name)], ExtendedKeyUsageOID.SERVER_AUTH)

    def _issue(
        self,
        file: str,
        subject: list[tuple[x509.ObjectIdentifier, str]],
        usage: x509.ObjectIdentifier,
        ends_h: float = 1,
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
        made = (
            self._builder(name, key, ends_h)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(file.replace(":", "-"))]
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        cert_file, key_file = self._directory / f"{file}.crt", self._directory / f"{file}.key"
        cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return cert_file, key_file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, ends_h: float = 1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=ends_h))
        )

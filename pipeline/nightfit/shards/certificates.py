"""The certificates of TLS: what a configuration names, when one ends, and Dask's setting made of them. Imports distributed."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nightfit.shards.failures import ClusterError


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificates:
    """Files of TLS: the authority that signs every side, our certificate and its key. A plain TCP connection is refused."""

    ca_file: str
    client_cert: str
    client_key: str


def certificate_end(path: str) -> datetime:
    """When a certificate ends.

    Raises
    ------
    ClusterError
        If it cannot be read.
    """
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        raise ClusterError(f"cluster.security.client_cert {path} is no certificate that can be read") from None


def security_of(certificates: Certificates | None) -> Any:
    """TLS for every connection, or None for what Dask's own settings say."""
    if certificates is None:
        return None
    from distributed import Security

    for name in ("ca_file", "client_cert", "client_key"):
        path = getattr(certificates, name)
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ClusterError(f"cluster.security.{name} {path} cannot be read: {error.strerror}") from None
    return Security(
        require_encryption=True,
        tls_ca_file=certificates.ca_file,
        tls_client_cert=certificates.client_cert,
        tls_client_key=certificates.client_key,
    )

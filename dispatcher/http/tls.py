"""TLS for webhooks: certificates are checked against the name, and the environment is not read.

`ssl.create_default_context` is not used: it writes session keys to the file named by SSLKEYLOGFILE, and takes
its authorities from SSL_CERT_FILE and SSL_CERT_DIR.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi

# Where Debian, Red Hat, SUSE and Alpine keep the system's authorities, to which an operator may add.
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that checks names and speaks TLS 1.2 or newer.

    Its authorities are those of `ca_file` (PEM), else the system's, else certifi's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cafile=ca_file or _authorities())
    return context


def _authorities() -> str:
    return next((path for path in _SYSTEM_BUNDLES if Path(path).is_file()), None) or certifi.where()

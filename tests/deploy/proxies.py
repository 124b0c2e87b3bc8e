"""nginx and HAProxy with the configurations in deploy/, moved to loopback ports."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from rvq.local.processes import Process
from rvq.ports import free_port
from tests.app.rig import Reply
from tests.support.source import ROOT
from tests.worker_sdk.certificates import self_signed

HOST = "rvq.example"
STARTS_WITHIN, STOPS_WITHIN = 30, 30
NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; {user}
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/rvq.conf;
}}
"""
needs_nginx = pytest.mark.skipif(not shutil.which("nginx", path=f"{os.defpath}:/usr/sbin"), reason="no nginx")
needs_haproxy = pytest.mark.skipif(
    not shutil.which("haproxy", path=f"{os.defpath}:/usr/sbin"), reason="no HAProxy"
)


class Proxy:
    """A running proxy with TLS. `call` sends one request on a connection of its own."""

    def __init__(self, process: Process, port: int, chain: Path) -> None:
        self._process, self._port = process, port
        self._tls = ssl.create_default_context(cafile=str(chain))
        self._tls.check_hostname = False

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._tls)
        with contextlib.closing(connection):
            fields = {"Host": HOST, "Content-Type": "application/json", **(headers or {})}
            if token:
                fields["Authorization"] = f"Bearer {token}"
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return Reply(response.status, {k.title(): v for k, v in response.getheaders()}, response.read())

    def answers(self) -> bool:
        try:
            return self.call("GET", "/readyz").status < 500
        except OSError:
            return False

    def wait_ready(self) -> None:
        self._process.wait_until(self.answers, STARTS_WITHIN)


@contextlib.contextmanager
def nginx(folder: Path, *apis: int) -> Iterator[Proxy]:
    """Run nginx as deploy/ has it, in front of the APIs on these ports."""
    site = (ROOT / "deploy/nginx/rvq.conf").read_text()
    line = re.search(r"^ *server 127\.0\.0\.1:8000(.*)$", site, re.MULTILINE)
    assert line
    servers = "\n".join(f"server 127.0.0.1:{port}{line.group(1)}" for port in apis)
    site = site.replace(line.group(), servers).replace("/etc/nginx/tls/rvq.example", f"{folder}/tls")
    port = free_port()
    (folder / "rvq.conf").write_text(site.replace("listen 443", f"listen 127.0.0.1:{port}"))
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user))
    certificate = self_signed(folder, HOST)
    shutil.copy(certificate.chain, folder / "tls.crt")
    shutil.copy(certificate.key, folder / "tls.key")
    command = ["nginx", "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    with _running("nginx", command, folder, port, certificate.chain) as proxy:
        yield proxy


@contextlib.contextmanager
def haproxy(folder: Path, *apis: int) -> Iterator[Proxy]:
    """Run HAProxy as deploy/ has it, in front of the APIs on these two ports."""
    text = (ROOT / "deploy/haproxy/rvq.cfg").read_text()
    for shipped, api in zip((8000, 8001), apis, strict=True):
        text = text.replace(f"127.0.0.1:{shipped}", f"127.0.0.1:{api}")
    port = free_port()
    text = text.replace("bind :443", f"bind 127.0.0.1:{port}").replace("/etc/haproxy", str(folder))
    certificate = self_signed(folder, HOST)
    (folder / "tls").mkdir()
    both = certificate.chain.read_text() + certificate.key.read_text()
    (folder / "tls" / "rvq.example.pem").write_text(both)
    (folder / "haproxy.cfg").write_text(text)
    with _running(
        "haproxy", ["haproxy", "-f", f"{folder}/haproxy.cfg"], folder, port, certificate.chain
    ) as p:
        yield p


@contextlib.contextmanager
def _running(name: str, command: Sequence[str], folder: Path, port: int, chain: Path) -> Iterator[Proxy]:
    environ = {"PATH": f"{os.defpath}:/usr/sbin"}
    process = Process(name, command, environ, log=folder / f"{name}.log")
    try:
        proxy = Proxy(process, port, chain)
        proxy.wait_ready()
        yield proxy
    finally:
        process.stop(STOPS_WITHIN)

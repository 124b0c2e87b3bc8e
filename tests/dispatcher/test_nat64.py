"""A real dispatcher in a network without IPv4, whose name server makes up addresses of NAT64 (DNS64).

The network is a name space of its own, in which the translator's side of each address is on loopback.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rvq.embedded import Cluster
from rvq.local.processes import Process
from rvq.local.settings import child_environ
from rvq.local.stack import python
from tests.dispatcher.rig import Tasks, environment

PORT = 9000
NAMES = {
    "both.example": ["64:ff9b::808:808", "8.8.8.8"],
    "translated.example": ["64:ff9b::808:808"],
    "inward.example": ["64:ff9b::7f00:1"],
    "mixed.example": ["8.8.8.8", "64:ff9b::a00:1"],
    "local.example": ["64:ff9b:1::808:808"],
    "6to4.example": ["2002:808:808::1"],
}
ADDRESSES = sorted({address for addresses in NAMES.values() for address in addresses})
# Takes every webhook on every address there is.
RECEIVER = """
import http.server, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(204)
        self.end_headers()
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::", int(sys.argv[1])), Handler).serve_forever()
"""
ENTER = """
set -e
ip link set lo up
for address in $1; do
    case $address in
    *:*) ip -6 addr add $address/128 dev lo nodad ;;
    *) ip addr add $address/32 dev lo ;;
    esac
done
mount --bind "$2" /etc/hosts
shift 2
"""


@pytest.fixture(autouse=True)
def _may_unshare() -> None:
    tried = subprocess.run(["unshare", "--net", "--mount", "ip", "link"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("name spaces of one's own take root, unshare and ip")


@contextlib.contextmanager
def running(environ: dict[str, str], folder: Path) -> Iterator[None]:
    """Run a dispatcher and a receiver in a network that has ADDRESSES, and where NAMES resolve."""
    hosts = folder / "hosts"
    lines = [f"{address} {name}\n" for name, addresses in NAMES.items() for address in addresses]
    hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
    start = f"{ENTER} {sys.executable} -c '{RECEIVER}' {PORT} & exec \"$@\""
    command = ["unshare", "--net", "--mount", "sh", "-c", start, "sh", " ".join(ADDRESSES), str(hosts)]
    log = folder / "dispatcher.log"
    process = Process("the dispatcher", [*command, *python("dispatcher")], child_environ(environ), log=log)
    try:
        process.wait_until(lambda: ": ready" in log.read_text(), 30)
        yield
    finally:
        process.stop()


def test_the_ipv4_address_behind_nat64_decides(own_cluster: Cluster, tmp_path: Path) -> None:
    tasks = Tasks(own_cluster.url("rvq"))
    hosts = [f"{name}:{PORT}" for name in NAMES]
    ids = {name: tasks.finish(f"http://{name}:{PORT}/hook")[0] for name in NAMES}
    with running(environment(own_cluster.url("rvq", tcp=False), *hosts), tmp_path):
        tasks.wait_until_tried(len(NAMES))
    found = {
        name: tasks.rows(
            "SELECT outcome, detail::json ->> 'address' FROM rvq.delivery_attempts WHERE id = %s", (number,)
        )
        for name, number in ids.items()
    }
    assert found["translated.example"] == [("delivered", "64:ff9b::808:808")]
    ((outcome, address),) = found["both.example"]
    assert (outcome, address in NAMES["both.example"]) == ("delivered", True)
    for name in ("inward.example", "mixed.example", "local.example", "6to4.example"):
        assert found[name] == [("blocked", None)], name

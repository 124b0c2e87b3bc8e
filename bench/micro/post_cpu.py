"""The CPU of a delivery on a kept connection is shown beside the same POST by http.client, urllib3, requests.

    python -m bench.micro.post_cpu [--posts 3000] [--threads 1]

The receiver is a process of its own, so that only the sender's CPU is counted. Rounds alternate, and the
median is shown with its ratio to http.client in the same run: absolute figures are this machine's.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from ipaddress import ip_network
from multiprocessing.connection import Connection
from socketserver import StreamRequestHandler, ThreadingTCPServer

import requests
import urllib3

from app.webhooks.addresses import PrivateHost, parse_allowed_host
from bench.stats import alternate
from dispatcher.http.sender import Sender
from dispatcher.http.signer import Signer
from rvq.tables import table

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: bench\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"type":"task.succeeded","data":"' + b"x" * 567 + b'"}'
EVENT, SIGNER = "evt_0123456789abcdef", Signer((b"k" * 32,))
ROUNDS = 5

Post = Callable[[], object]


class _Receiver(StreamRequestHandler):
    """Reads requests of a known shape and answers each at once."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            length = 0
            while line not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line[15:])
                line = self.rfile.readline()
            self.rfile.read(length)
            self.wfile.write(RESPONSE)


def _serve(ready: Connection) -> None:
    ThreadingTCPServer.daemon_threads = True
    with ThreadingTCPServer(("127.0.0.1", 0), _Receiver) as server:
        ready.send(server.server_address[1])
        server.serve_forever()


def _signed() -> dict[str, str]:
    return SIGNER.sign(EVENT, int(time.time()), BODY)


def _by_sender(port: int) -> Post:
    allowed = (parse_allowed_host(f"http://127.0.0.1:{port}"),)
    sender = Sender(allowed, (PrivateHost("127.0.0.1", ip_network("127.0.0.1/32")),), SIGNER)

    def post() -> None:
        attempt = sender.send(EVENT, f"http://127.0.0.1:{port}/hook", BODY)
        assert attempt.outcome == "delivered", attempt

    return post


def _by_http_client(port: int) -> Post:
    local = threading.local()

    def post() -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
        headers = {"Content-Type": "application/json", **_signed()}
        local.connection.request("POST", "/hook", BODY, headers)
        local.connection.getresponse().read()

    return post


def _by_urllib3(port: int) -> Post:
    pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=64)

    def post() -> None:
        pool.urlopen("POST", "/hook", body=BODY, headers=_signed(), redirect=False, retries=False)

    return post


def _by_requests(port: int) -> Post:
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=64))
    session.trust_env = False
    url = f"http://127.0.0.1:{port}/hook"

    def post() -> None:
        session.post(url, data=BODY, headers=_signed(), allow_redirects=False, timeout=15)

    return post


def _many(post: Post, times: int) -> None:
    for _ in range(times):
        post()


def _cpu_per_post(post: Post, posts: int, threads: int) -> float:
    """Return microseconds of this process's CPU for one post."""
    with ThreadPoolExecutor(threads) as pool:
        wait([pool.submit(post) for _ in range(threads * 2)])
        started = time.process_time()
        done, _ = wait([pool.submit(_many, post, posts // threads) for _ in range(threads)])
        for future in done:
            future.result()
        return (time.process_time() - started) / posts * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per delivery on a kept connection, by way of sending")
    parser.add_argument("--posts", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    receiver = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    receiver.start()
    port = ours.recv()
    ways = {
        "dispatcher.http.sender": _by_sender(port),
        "http.client": _by_http_client(port),
        "urllib3": _by_urllib3(port),
        "requests": _by_requests(port),
    }
    run = {name: partial(_cpu_per_post, post, options.posts, options.threads) for name, post in ways.items()}
    measured = alternate(ROUNDS, run)
    base = statistics.median(measured["http.client"])
    medians = {name: statistics.median(figures) for name, figures in measured.items()}
    rows = [(name, f"{us:.0f}", f"{us / base:.2f}") for name, us in medians.items()]
    print(table(("way", "us of CPU a post", "of http.client"), rows))
    receiver.terminate()


if __name__ == "__main__":
    main()

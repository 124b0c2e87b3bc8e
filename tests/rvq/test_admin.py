"""`rvq admin`, typed against a running RVQ: what it prints, what it does, and its exit status."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rvq.local.settings import child_environ
from tests.dispatcher.receiver import Answer, Received, Receiver
from tests.e2e.rig import Rvq, running
from tests.support.concurrency import background, wait_until
from tests.support.database import Database
from tests.worker_sdk.certificates import self_signed


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


Admin = Callable[..., Said]


@pytest.fixture
def rvq(database: Database) -> Iterator[Rvq]:
    with running(database.url) as rvq:
        yield rvq


@pytest.fixture
def admin(rvq: Rvq) -> Admin:
    """Runs the command with the address and the admin key, and nothing else of RVQ; "" takes one away."""

    def run(*arguments: str, **changes: str) -> Said:
        told = {"RVQ_URL": rvq.url, "APP_ADMIN_TOKEN": rvq.settings["APP_ADMIN_TOKEN"], **changes}
        environ = child_environ({name: value for name, value in told.items() if value})
        command = [sys.executable, "-m", "rvq.__main__", "admin", *arguments]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        return Said(done.returncode, done.stdout, done.stderr)

    return run


def failed_task(rvq: Rvq, **fields: object) -> str:
    task_id = rvq.create([1], **fields)
    (lease,) = rvq.worker("claim", {"worker_id": "w", "queues": ["e2e"]})["sub_tasks"]
    report = {"id": lease["id"], "lease_token": lease["lease_token"], "status": "failed"}
    rvq.worker(
        "complete",
        {"worker_id": "w", "results": [{**report, "error": {"message": "no", "retryable": False}}]},
    )
    return task_id


def test_a_task_is_retried_and_cancelled_and_refusals_say_why(rvq: Rvq, admin: Admin) -> None:
    task_id = failed_task(rvq)
    retried = admin("retry", task_id)
    assert retried.status == 0
    assert re.search(rf"^id +{task_id}$", retried.out, re.MULTILINE)
    assert rvq.task(task_id)["status"] in ("queued", "running")
    assert admin("retry", task_id) == Said(1, "", "rvq: the task has not ended (state_conflict, 409)\n")
    assert re.search(r"^status +cancelled$", admin("cancel", task_id).out, re.MULTILINE)
    assert admin("cancel", "task_no").err == "rvq: there is no such task (not_found, 404)\n"


def test_a_queue_is_paused_and_resumed(rvq: Rvq, admin: Admin) -> None:
    rvq.create([1, 2])
    assert "state      paused" in admin("queue", "e2e", "--pause").out
    assert rvq.worker("claim", {"worker_id": "w", "queues": ["e2e"]})["sub_tasks"] == []
    shown = admin("queue", "e2e").out
    assert re.search(r"^queued +2$", shown, re.MULTILINE)
    assert "state      open" in admin("queue", "e2e", "--resume").out
    assert len(rvq.worker("claim", {"worker_id": "w", "queues": ["e2e"]})["sub_tasks"]) == 1


def test_the_reset_wants_to_be_meant(rvq: Rvq, admin: Admin) -> None:
    task_id = rvq.create([1])
    refused = admin("reset")
    assert (refused.status, "--confirm reset" in refused.err) == (1, True)
    assert rvq.task(task_id)["status"] == "queued"
    assert admin("reset", "--confirm", "reset") == Said(0, "everything is empty\n", "")
    rvq.call("GET", f"/v1/tasks/{task_id}").expect(404)


def test_stats_need_nothing_but_the_admin_key(rvq: Rvq, admin: Admin) -> None:
    rvq.create([1, 2, 3])
    failed_task(rvq)
    shown = admin("stats").out.splitlines()
    columns = shown[0].split()
    tasks, sub_tasks = (dict(zip(columns, line.split()[1:], strict=True)) for line in shown[1:3])
    assert (tasks["QUEUED"], tasks["RUNNING"], tasks["CLAIMED"]) == ("1", "1", "-")
    assert (sub_tasks["QUEUED"], sub_tasks["FAILED"]) == ("3", "1")


def test_the_audit_finds_drift_shows_it_and_repairs_it(rvq: Rvq, admin: Admin, database: Database) -> None:
    rvq.create([1])
    assert admin("audit").status == 0
    database.rows("INSERT INTO rvq.counter_deltas (queue, queued) VALUES ('e2e', 7)")
    found = admin("audit")
    assert found.status == 1
    assert re.search(r"^e2e +queued +8 +1 +7$", found.out, re.MULTILINE)
    assert "1 repaired" in admin("audit", "--repair").out
    assert admin("audit").status == 0


def test_deliveries_are_listed_and_sent_again_one_by_one_or_all_that_match(
    rvq: Rvq, admin: Admin, database: Database
) -> None:
    with Receiver(Answer(410)) as receiver:
        settings = {"APP_WEBHOOK_ALLOWED_HOSTS": f"http://{receiver.host}"}
        rvq.api.stop()
        rvq.start_api(**settings)
        rvq.start_dispatcher(**settings)
        for number in range(3):
            task_id = rvq.create([number], webhook_url=receiver.url(f"/{number}"))
            rvq.call("POST", f"/v1/tasks/{task_id}/cancel").expect(200)
        dead = "SELECT count(*) FROM rvq.due_deliveries"
        wait_until(lambda: database.value(dead) == 0, "all three are dead")
        listed = admin("deliveries", "list", "--status", "dead").out.splitlines()
        assert len(listed) == 4
        assert re.match(r"dlv_\w{16}  task_\w{16}  dead +1  gone +410 ", listed[1])
        assert len(admin("deliveries", "list", "--limit", "2").out.splitlines()) == 3
        rvq.dispatcher.stop()
        assert admin("deliveries", "bulk", "--dry-run").out == "3 deliveries would be sent again\n"
        assert database.value(dead) == 0
        assert admin("deliveries", "redeliver", listed[1].split()[0]).status == 0
        assert admin("deliveries", "bulk", "--host", receiver.host).out == "2 deliveries are due again\n"
        assert database.value(dead) == 3
        missing = admin("deliveries", "redeliver", "dlv_7fff000000000001")
        assert (missing.status, missing.err) == (1, "rvq: there is no such delivery (not_found, 404)\n")


def test_with_json_each_answer_is_a_document_on_a_line_of_its_own(
    rvq: Rvq, admin: Admin, database: Database
) -> None:
    def said(*arguments: str) -> list[Any]:
        return [json.loads(line) for line in admin("--json", *arguments).out.splitlines()]

    task_id = failed_task(rvq)
    assert [task["id"] for task in said("retry", task_id)] == [task_id]
    assert [queue["queued"] for queue in said("queue", "e2e")] == [1]
    (stats,) = said("stats")
    assert (stats["sub_tasks"]["queued"], stats["deliveries"]["dead"]) == (1, 0)
    database.rows("INSERT INTO rvq.counter_deltas (queue, queued) VALUES ('e2e', 7)")
    assert [sorted(one) for one in said("audit", "--repair")] == [["counters", "drift"], ["repaired"]]
    assert said("deliveries", "list") == [[]]
    assert admin("--json", "cancel", "task_no").err == "rvq: there is no such task (not_found, 404)\n"


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """An API behind TLS that knows of one queue: its address, and the certificate."""

    class OneQueue(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"queue": "q", "paused": False, "scheduled": 0, "queued": 5, "claimed": 0})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    certificate = self_signed(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), OneQueue) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        with background(server.serve_forever):
            yield f"https://localhost:{server.server_port}", certificate.chain
            server.shutdown()


def test_the_certificates_to_trust_are_given_by_a_file(admin: Admin, tls: tuple[str, Path]) -> None:
    url, chain = tls
    refused = admin("queue", "q", RVQ_URL=url)
    assert (refused.status, "certificate" in refused.err.lower()) == (1, True)
    assert admin("--ca", str(chain), "queue", "q", RVQ_URL=url).status == 0
    missing = admin("--ca", "/no/such/file", "queue", "q", RVQ_URL=url)
    assert missing.err == "rvq: --ca: there is no file /no/such/file\n"


def test_wrong_keys_and_addresses_are_messages_that_never_show_the_key(rvq: Rvq, admin: Admin) -> None:
    worker = rvq.settings["APP_WORKER_TOKEN"]
    others = admin("stats", APP_ADMIN_TOKEN=worker)
    assert (others.status, "unauthorized, 401" in others.err) == (1, True)
    nobody = admin("stats", RVQ_URL="http://127.0.0.1:1")
    assert (nobody.status, "no answer from http://127.0.0.1:1" in nobody.err) == (1, True)
    assert "Connection refused" in nobody.err
    assert admin("stats", RVQ_URL="").err.startswith("rvq: RVQ_URL must be")
    assert admin("stats", APP_ADMIN_TOKEN="").err == "rvq: APP_ADMIN_TOKEN is not set\n"
    shown = "".join(said.out + said.err for said in (others, nobody))
    assert worker not in shown
    assert rvq.settings["APP_ADMIN_TOKEN"] not in shown
    assert admin("queue", "e2e", "--pause", "--resume").status == 2


def ping(rvq: Rvq, receiver: Receiver, url: str) -> Said:
    settings = {**rvq.settings, "APP_WEBHOOK_ALLOWED_HOSTS": f"http://{receiver.host}"}
    command = [sys.executable, "-m", "rvq.__main__", "admin", "ping", url]
    done = subprocess.run(command, env=child_environ(settings), capture_output=True, text=True, timeout=60)
    return Said(done.returncode, done.stdout, done.stderr)


def test_a_ping_is_a_signed_webhook_and_is_explained(rvq: Rvq) -> None:
    with Receiver() as receiver:
        said = ping(rvq, receiver, receiver.url())
        (received,) = receiver.received
    received.verify(rvq.settings["APP_WEBHOOK_SECRET"])
    assert received.id.startswith("evt_ping_")
    assert said.status == 0
    for line in (
        rf"webhook-id +{received.id}",
        "outcome +delivered",
        r"status +200",
        r"address +127\.0\.0\.1",
    ):
        assert re.search(rf"^{line}$", said.out, re.MULTILINE), (line, said.out)
    assert re.search(r"^first byte +[0-9.]+ ms$", said.out, re.MULTILINE)


def test_a_ping_that_fails_or_may_not_be_sent_has_status_one_and_says_why(rvq: Rvq) -> None:
    def refuse(_: Received) -> Answer:
        return Answer(500, body=b"no \x1b[31m thanks")

    with Receiver(refuse) as receiver:
        failing = ping(rvq, receiver, receiver.url())
        foreign = ping(rvq, receiver, "https://elsewhere.example/")
    assert (failing.status, foreign.status) == (1, 1)
    assert re.search(r"^answer +no \?\[31m thanks$", failing.out, re.MULTILINE)
    assert "not_allowed" in foreign.out
    assert "https://elsewhere.example:443 is not on the list" in foreign.out
    assert len(receiver.received) == 1

"""Every address that must not be dialled: refused at creation, and again at a try when its row was edited."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator

import pytest

from app.db import Pool
from tests.app.rig import Caller, make_caller
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.refused_urls import ALLOWED_HOSTS, OTHER_FORMS, OTHER_HOSTS
from tests.dispatcher.rig import Tasks, environment, running
from tests.support.concurrency import wait_until
from tests.support.database import Database

VECTORS = [*OTHER_HOSTS, *(url for url, _ in OTHER_FORMS)]


def at(receiver: Receiver, text: str) -> str:
    """The vector, or the list's entry, with the receiver's port where it speaks of loopback."""
    return text.replace(":9000", f":{receiver.port}").replace(":9/", f":{receiver.port}/")


def can_be_stored(url: str) -> bool:
    return "\0" not in url and "\ud800" not in url


@pytest.fixture
def loopback() -> Iterator[Receiver]:
    """Its plain address is on the list, and may be dialled: only the vectors' spellings may not."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def api(database: Database, loopback: Receiver) -> Iterator[Caller]:
    pool = Pool(database.url, 2, "rvq-test-refused")
    with contextlib.closing(pool):
        hosts = ", ".join(at(loopback, entry) for entry in ALLOWED_HOSTS)
        yield make_caller(database.url, pool, APP_WEBHOOK_ALLOWED_HOSTS=hosts)


def test_at_creation_each_is_answered_with_422_and_nothing_is_made(
    api: Caller, database: Database, loopback: Receiver
) -> None:
    for url in VECTORS:
        body = {"sub_tasks": [{"payload": 1}], "webhook_url": at(loopback, url)}
        answer = api.partner("POST", "/v1/tasks", body)
        # Half a surrogate pair is no text at all: then not even the body is what it should be.
        if "\ud800" in url:
            assert answer.status in (400, 422), (url, answer)
        else:
            assert answer.pointers() == ["/webhook_url"], url
    assert database.value("SELECT count(*) FROM rvq.tasks") == 0
    assert loopback.received == []


def test_at_each_try_each_is_refused_again_and_nobody_is_connected_to(
    api: Caller, database: Database, loopback: Receiver
) -> None:
    tasks = Tasks(database.url)
    urls = [at(loopback, url) for url in VECTORS if can_be_stored(url)]
    plain = f"http://{loopback.host}/plain"
    ids = tasks.finish(plain, len(urls) + 1)
    for number, url in zip(ids, urls, strict=False):
        # Hosts of their own, so that they don't wait for one another.
        edit = "UPDATE rvq.due_deliveries SET url = %s, host = %s WHERE id = %s"
        tasks.rows(edit, (url, f"edited-{number}", number))
    hosts = {"APP_WEBHOOK_ALLOWED_HOSTS": ", ".join(at(loopback, entry) for entry in ALLOWED_HOSTS)}
    with running(environment(database.url, **hosts)):
        tasks.wait_until_done()
    assert [received.path for received in loopback.received] == ["/plain"]
    for number, url in zip(ids, urls, strict=False):
        assert tasks.ledger(number) == [(1, "not_allowed", "dead")], url
    told = api.partner("GET", f"/v1/tasks/task_{ids[0]:016x}/deliveries").expect(200)["items"][0]
    assert told["status"] == "dead"
    assert told["attempts"][0]["outcome"] == "not_allowed"
    assert "not on the list" in told["attempts"][0]["detail"]["summary"]


def test_a_listed_name_or_address_that_leads_inwards_is_blocked_and_tried_again(database: Database) -> None:
    """Listed, but without a pair that allows it a private address."""
    tasks = Tasks(database.url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        urls = [f"http://{host}:{port}/" for host in ("localhost", "127.0.0.1")]
        ids = [tasks.finish(url)[0] for url in urls]
        pairs = "127.0.0.1=10.0.0.0/8, other.example=127.0.0.0/8"
        hosts = (f"localhost:{port}", f"127.0.0.1:{port}")
        with running(environment(database.url, *hosts, APP_WEBHOOK_PRIVATE_HOSTS=pairs)):
            wait_until(lambda: all(tasks.ledger(number) for number in ids), "both were tried")
        with pytest.raises(BlockingIOError):
            listener.accept()
    for number in ids:
        assert tasks.ledger(number)[0] == (1, "blocked", "pending")
        detail = tasks.value("SELECT detail FROM rvq.delivery_attempts WHERE id = %s", (number,))
        assert "not a public address" in json.loads(detail)["addresses_refused"][0]

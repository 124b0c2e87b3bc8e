"""Every process of RVQ goes on after a pause: whoever stops a machine's processes has not told any to end."""

from __future__ import annotations

import contextlib

from tests.dispatcher.receiver import Receiver
from tests.e2e.rig import Rvq
from tests.e2e.test_life_of_processes import children
from tests.support.concurrency import wait_until
from tests.support.pauses import stopped


def test_api_dispatcher_and_worker_go_on_after_a_pause_of_all_of_them(rvq: Rvq, receiver: Receiver) -> None:
    worker = rvq.start_worker("Echo")
    rvq.wait_ended(rvq.create([1], webhook_url=receiver.url()))
    before = children(rvq.api)
    with contextlib.ExitStack() as stack:
        for pid in (worker.pid, rvq.dispatcher.pid, rvq.api.pid, *before):
            stack.enter_context(stopped(pid))
    task = rvq.wait_ended(rvq.create(list(range(20)), webhook_url=receiver.url()))
    assert task["status"] == "succeeded"
    assert children(rvq.api) == before
    wait_until(lambda: len(receiver.ids()) == 2, "both webhooks", 60)
    assert [process.stop() for process in (worker, rvq.dispatcher, rvq.api)] == [0, 0, 0]

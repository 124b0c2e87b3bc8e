"""A whole RVQ that sends no webhooks: everything else works, and what is off is said."""

from __future__ import annotations

from rvq.embedded import Cluster
from tests.e2e.rig import Rvq, running
from tests.support.concurrency import wait_until

WITHOUT = {"APP_WEBHOOK_SECRET": "", "APP_WEBHOOK_ALLOWED_HOSTS": ""}


def is_degraded(rvq: Rvq) -> bool:
    answer = rvq.call("GET", "/readyz").expect(200)
    assert answer["status"] == "ready"
    return "degraded" in answer


def test_readiness_tells_of_a_dispatcher_that_is_gone_and_one_without_webhooks_is_enough(
    own_cluster: Cluster,
) -> None:
    with running(own_cluster.url("rvq"), **WITHOUT) as rvq:
        rvq.start_dispatcher()
        wait_until(lambda: not is_degraded(rvq), "a dispatcher does the maintenance")
        rvq.dispatcher.kill()
        task_id = rvq.create([1], completion={"policy": "all", "deadline_seconds": 30})
        own_cluster.move_clock(90)
        assert is_degraded(rvq)
        assert rvq.task(task_id)["status"] == "queued"
        rvq.start_dispatcher()
        wait_until(lambda: not is_degraded(rvq), "a dispatcher does the maintenance again")
        assert rvq.wait_ended(task_id)["status"] == "failed"
        refused = rvq.call(
            "POST", "/v1/tasks", {"sub_tasks": [{"payload": 1}], "webhook_url": "https://hooks.example/"}
        )
        assert refused.status == 422

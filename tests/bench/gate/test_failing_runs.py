"""The gate is tested: whatever is wrong fails the run, by the right name."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import requests

from bench.gate.stack import GateStack
from bench.gate.target import read_target
from bench.procfs import tree
from tests.bench.gate.proxy import Once, proxy
from tests.bench.gate.runs import GateRun, run_gate
from tests.support.concurrency import wait_until

FOLDER = Path(__file__).parent


def traffic_flows(stack: GateStack) -> None:
    """Until a webhook has come that was not there before."""
    target = read_target(stack.environ)
    before = target.webhooks_in_all()
    wait_until(lambda: target.webhooks_in_all() > before, "a webhook of the run arrives", 60)


def test_a_healthy_system_passes(stack: GateStack) -> None:
    run = run_gate(stack)
    assert run.failed == set(), run.output
    assert run.status == 0
    assert "PASS" in run.output
    webhook = run.document["measured"]["webhook"]
    assert webhook["expected"] == run.document["measured"]["streams"]["create"]["answered"] > 0


def test_a_missed_budget_fails_only_with_assert_slo(stack: GateStack) -> None:
    """Without it, the status says whether the measurement itself worked."""
    impossible = {"http_p99_ms": 0.001}
    told = run_gate(stack, budgets=impossible, asserting=False)
    assert told.status == 0
    assert not told.document["passed"]
    asserted = run_gate(stack, budgets=impossible)
    assert asserted.status == 1
    assert asserted.failed == {"create_p99", "claim_p99", "complete_p99"}
    assert "FAIL: create_p99, claim_p99, complete_p99" in asserted.output
    assert told.failed == asserted.failed


def test_api_down_at_the_start(stack: GateStack) -> None:
    run = run_gate(stack, environ={"GATE_API_URL": "http://127.0.0.1:1"})
    assert run.status != 0
    assert run.failed == {"start"}
    assert "can't be reached" in run.found("start")


def test_receiver_down_at_the_start(stack: GateStack) -> None:
    run = run_gate(stack, environ={"GATE_RECEIVER_URL": "http://127.0.0.1:1"})
    assert run.status != 0
    assert run.failed == {"start"}


def test_api_that_goes_away_during_the_run(stack: GateStack) -> None:
    gone = threading.Event()

    def rule(_path: str) -> tuple[float, int]:
        if gone.is_set():
            raise ConnectionError("the proxy hangs up")
        return 0.0, 1

    def go_away() -> None:
        traffic_flows(stack)
        gone.set()

    with proxy(stack.environ["GATE_API_URL"], rule) as url:
        run = run_gate(stack, "--drain", "1", environ={"GATE_API_URL": url}, meanwhile=go_away)
    assert run.status != 0
    assert "errors" in run.failed, run.output


def test_wrong_token(stack: GateStack) -> None:
    run = run_gate(stack, "--drain", "1", environ={"GATE_PARTNER_TOKEN": "another-token-of-24-chars"})
    assert run.status != 0
    assert {"errors", "create_throughput", "minimum_counts"} <= run.failed
    assert "create: 401" in run.found("errors")


def test_server_that_freezes_for_six_seconds(stack: GateStack) -> None:
    def freeze() -> None:
        traffic_flows(stack)
        frozen = list(tree(stack.rvq.api.pid))
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(6)
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    run = run_gate(stack, budgets={"http_p99_ms": 4_000}, meanwhile=freeze, duration=8)
    assert run.status != 0
    assert {"create_p99", "claim_p99"} <= run.failed, run.output
    assert "lost_webhooks" not in run.failed


def test_ticks_that_find_too_many_in_flight_are_shed(stack: GateStack) -> None:
    """Two may be in flight, and a claim takes half a second: of 20 a second most can't be sent."""
    with proxy(stack.environ["GATE_API_URL"], lambda path: (0.5 if "claim" in path else 0.0, 1)) as url:
        run = run_gate(stack, "--in-flight", "2", environ={"GATE_API_URL": url})
    assert run.status != 0
    assert {"shed", "claim_throughput"} <= run.failed


def test_an_endpoint_just_over_its_budget(stack: GateStack) -> None:
    def slow_claims(path: str) -> tuple[float, int]:
        return (1.55 if path.endswith("/claim") else 0.0), 1

    with proxy(stack.environ["GATE_API_URL"], slow_claims) as url:
        run = run_gate(stack, environ={"GATE_API_URL": url}, budgets={"http_p99_ms": 1_500})
    assert run.status != 0
    assert "claim_p99" in run.failed


def test_one_forged_signature(stack: GateStack) -> None:
    def forge() -> None:
        target = read_target(stack.environ)
        before = len(target.received().event_ids)
        # After the reset at the end of the warm-up, which would forget it.
        wait_until(lambda: len(target.received().event_ids) < before, "the receiver is reset", 60)
        headers = {
            "webhook-id": "evt_0123456789abcdef",
            "webhook-timestamp": str(int(time.time())),
            "webhook-signature": "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        }
        answer = requests.post(stack.environ["GATE_WEBHOOK_URL"], b"{}", headers=headers, timeout=10)
        assert answer.status_code == 400

    run_gate(stack)  # leaves webhooks of before the reset
    run = run_gate(stack, meanwhile=forge)
    assert run.status != 0
    assert run.failed == {"signatures"}, run.output


def test_one_lost_webhook_and_what_became_of_its_task(stack: GateStack, webhook_proxy_port: int) -> None:
    run = run_through_proxy(stack, webhook_proxy_port, times=0)
    assert run.failed == {"lost_webhooks"}
    stories = [line for line in run.output.splitlines() if line.startswith("lost: /v1/tasks/task_")]
    assert [' 200 {"' in story for story in stories] == [True] * 3
    assert '"status":"succeeded"' in stories[0]


def test_one_webhook_twice(stack: GateStack, webhook_proxy_port: int) -> None:
    run = run_through_proxy(stack, webhook_proxy_port, times=2)
    assert run.failed == {"duplicate_webhooks"}


def run_through_proxy(stack: GateStack, port: int, times: int) -> GateRun:
    """A cold run whose first webhook comes so many times."""
    receiver = stack.environ["GATE_WEBHOOK_URL"]
    # What an earlier run left to be sent again goes to another path.
    path = f"/hook-{times}"
    with proxy(receiver, Once(times, path), port=port) as url:
        environ = {"GATE_WEBHOOK_URL": url + path, "GATE_RECEIVER_URL": receiver}
        run = run_gate(stack, "--warmup", "0", "--drain", "6", environ=environ)
    assert run.status != 0
    return run


def test_zero_users(stack: GateStack) -> None:
    run = run_gate(stack, "--drain", "1", "-u", "0")
    assert run.status != 0
    assert {"create_throughput", "claim_throughput", "minimum_counts"} <= run.failed


def test_a_profile_that_makes_no_sense(stack: GateStack) -> None:
    run = run_gate(stack, "--budget", "speed=9")
    assert run.status != 0
    assert run.failed == {"start"}
    assert "no such budget: speed" in run.found("start")


def test_a_listener_that_raises_at_the_start(stack: GateStack) -> None:
    run = run_gate(stack, locustfile=FOLDER / "broken_listener.py")
    assert run.status != 0
    assert run.failed == {"generator_exceptions"}, run.output


def test_users_that_raise_at_their_start(stack: GateStack) -> None:
    run = run_gate(stack, "--drain", "1", locustfile=FOLDER / "broken_user.py")
    assert run.status != 0
    assert {"generator_exceptions", "create_throughput"} <= run.failed
    assert "no such stream" in run.found("generator_exceptions")

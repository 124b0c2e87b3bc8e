"""The deliverer: one attempt and what follows from it, and the threads that make attempts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from dispatcher.delivery import Delivery, Lease, Result
from dispatcher.http.attempt import Attempt
from dispatcher.metrics import Metrics
from dispatcher.outbox.deliverer import Deliverer
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.store import Store
from tests.dispatcher.steps import attempt
from tests.support.concurrency import wait_until

FOR_EVER = float("inf")


def delivery(number: int, expires_at: float = FOR_EVER) -> Delivery:
    return Delivery(number, 1, 1, "http://one.test/", "one.test", b"{}", f"lease {number}", 0.0, expires_at)


class Giving(Store):
    """A store that remembers what was given back."""

    def __init__(self) -> None:
        self.released: list[Delivery] = []

    def release(self, deliveries: Sequence[Delivery]) -> int:
        self.released += deliveries
        return len(deliveries)


class Collecting(Settler):
    """A settler that only collects."""

    def __init__(self, store: Store, in_flight: InFlight) -> None:
        super().__init__(store, in_flight, Metrics())
        self.results: list[Result] = []

    def put(self, result: Result) -> None:
        self.results.append(result)


class Scene:
    """A deliverer between counted ends; `begin` is what the claimer does before it puts deliveries in."""

    def __init__(self, send: Callable[[str, str, bytes], Attempt], threads: int = 1) -> None:
        self.in_flight = InFlight(threads)
        self.store = Giving()
        self.settler = Collecting(self.store, self.in_flight)
        self.deliverer = Deliverer(send, self.store, self.in_flight, self.settler, Lease())

    def begin(self, *deliveries: Delivery) -> Sequence[Delivery]:
        self.in_flight.begin(deliveries)
        return deliveries


def delivered(event_id: str, url: str, body: bytes) -> Attempt:
    return attempt("delivered", 200)


def test_a_result_goes_to_the_settler_with_its_decision_and_the_end_is_announced() -> None:
    scene, ended = Scene(delivered), threading.Event()
    scene.deliverer.on_end = ended.set
    scene.deliverer.deliver(*scene.begin(delivery(1)))
    (result,) = scene.settler.results
    assert (result.delivery.id, result.attempt.outcome, result.decision.kind) == (1, "delivered", "delivered")
    assert (scene.in_flight.running, scene.in_flight.unsettled) == (0, 1)
    assert ended.is_set()


def test_with_too_little_of_the_lease_left_it_is_given_back_and_not_sent() -> None:
    def send(event_id: str, url: str, body: bytes) -> Attempt:
        raise AssertionError("it was sent")

    scene = Scene(send)
    late = delivery(1, expires_at=0.0)
    scene.deliverer.deliver(*scene.begin(late))
    assert scene.store.released == [late]
    assert (scene.in_flight.running, scene.in_flight.unsettled, scene.settler.results) == (0, 0, [])


def test_a_sender_that_fails_leaves_nothing_in_flight_and_its_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def send(event_id: str, url: str, body: bytes) -> Attempt:
        if body == b"broken":
            raise RuntimeError("a fault")
        return attempt("delivered", 200)

    scene = Scene(send)
    broken = Delivery(1, 1, 1, "http://one.test/", "one.test", b"broken", "", 0.0, FOR_EVER)
    scene.deliverer.put(scene.begin(broken, delivery(2)))
    wait_until(lambda: scene.settler.results and scene.in_flight.running == 0, "both have ended")
    assert [result.delivery.id for result in scene.settler.results] == [2]
    wait_until(lambda: "a delivery broke off" in caplog.text, "its thread has said so")


def test_threads_are_started_as_needed_up_to_the_most_and_what_none_took_up_is_given_back() -> None:
    release, sending = threading.Event(), threading.Semaphore(0)

    def send(event_id: str, url: str, body: bytes) -> Attempt:
        sending.release()
        release.wait()
        return attempt("delivered", 200)

    scene = Scene(send)
    most = scene.in_flight.most_running
    deliveries = scene.begin(*(delivery(number) for number in range(most + 2)))
    scene.deliverer.put(deliveries)
    assert all(sending.acquire(timeout=30) for _ in range(most))
    scene.deliverer.give_back()
    assert scene.store.released == list(deliveries[most:])
    release.set()
    wait_until(lambda: len(scene.settler.results) == most, "those that were begun have ended")


def test_an_idle_thread_is_used_before_another_is_started() -> None:
    names = set()

    def send(event_id: str, url: str, body: bytes) -> Attempt:
        names.add(threading.current_thread().name)
        return attempt("delivered", 200)

    scene = Scene(send, threads=4)
    for number in range(5):
        scene.deliverer.put(scene.begin(delivery(number)))
        wait_until(lambda: scene.deliverer._idle == 1, "its thread is idle again")
    assert names == {"send-1"}

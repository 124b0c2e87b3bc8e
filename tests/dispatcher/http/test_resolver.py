"""Resolution: bounded in time and threads, whatever the name servers do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatcher.http.resolver import BoundedResolver, ResolutionFailed, system_resolver


class StuckResolver:
    """Answers no name of `stuck` before `release` is called; counts what it is asked."""

    def __init__(self, *stuck: str) -> None:
        self._stuck = stuck
        self._released = threading.Event()
        self.asked: list[str] = []
        self.is_asked = threading.Event()

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        self.is_asked.set()
        if host in self._stuck:
            self._released.wait()
        return ["192.0.2.1", "192.0.2.2"]

    def release(self) -> None:
        self._released.set()


def test_the_system_resolver_gives_each_address_once() -> None:
    addresses = system_resolver("localhost", 80)
    assert "127.0.0.1" in addresses
    assert len(set(addresses)) == len(addresses)


def test_all_answers_are_given_in_their_order() -> None:
    assert BoundedResolver(StuckResolver()).resolve("a.test", 443, 1) == ["192.0.2.1", "192.0.2.2"]


def test_a_name_that_does_not_resolve_says_so() -> None:
    def no_such_name(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(ResolutionFailed, match=r"a\.test does not resolve: Name or service not known"):
        BoundedResolver(no_such_name).resolve("a.test", 443, 1)


@pytest.mark.parametrize(
    "error", [ValueError("odd"), UnicodeError("odd"), RuntimeError("odd"), TimeoutError()]
)
def test_a_resolver_that_fails_in_any_other_way_is_a_failed_resolution(error: Exception) -> None:
    def broken(host: str, port: int) -> Sequence[str]:
        raise error

    with pytest.raises(ResolutionFailed):
        BoundedResolver(broken).resolve("a.test", 443, 1)


def test_no_address_at_all_is_a_failed_resolution() -> None:
    with pytest.raises(ResolutionFailed, match="no address"):
        BoundedResolver(lambda *_: []).resolve("a.test", 443, 1)


def test_who_waits_for_a_stuck_name_server_stops_waiting_in_time() -> None:
    stuck = StuckResolver("slow.test")
    with pytest.raises(ResolutionFailed, match=r"within 0\.1 s"):
        BoundedResolver(stuck).resolve("slow.test", 443, 0.1)
    stuck.release()


def test_a_stuck_name_holds_one_thread_and_no_other_name() -> None:
    stuck = StuckResolver("slow.test")
    resolver = BoundedResolver(stuck, most_at_once=2)
    for _ in range(20):
        with pytest.raises(ResolutionFailed, match="within"):
            resolver.resolve("slow.test", 443, 0.01)
    assert stuck.asked == ["slow.test"]
    assert resolver.resolve("fast.test", 443, 5)
    stuck.release()


def test_more_stuck_names_than_threads_fail_at_once_and_not_for_ever() -> None:
    stuck = StuckResolver("one.test", "two.test")
    resolver = BoundedResolver(stuck, most_at_once=2)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(resolver.resolve, host, 443, 30) for host in ("one.test", "two.test")]
        while len(stuck.asked) < 2:
            stuck.is_asked.wait(0.01)
        with pytest.raises(ResolutionFailed, match="too many"):
            resolver.resolve("three.test", 443, 30)
        stuck.release()
        assert all(future.result() for future in waiting)
    assert resolver.resolve("three.test", 443, 5)


def test_each_attempt_asks_anew_once_the_last_answer_is_given() -> None:
    answers = iter([["192.0.2.1"], ["192.0.2.2"]])
    resolver = BoundedResolver(lambda *_: next(answers))
    assert [resolver.resolve("a.test", 443, 5) for _ in range(2)] == [["192.0.2.1"], ["192.0.2.2"]]

"""A host's window: it grows with responses, shrinks without, and never closes."""

from __future__ import annotations

from dispatcher.outbox.in_flight import FIRST_WINDOW, HostWindow


def test_a_window_grows_by_one_up_to_the_most_and_a_slow_host_falls_back_to_less() -> None:
    window = HostWindow()
    for _ in range(10):
        window.grow(most=6)
    assert window.size == 6
    window.grow(most=2)
    assert window.size == 2


def test_a_window_is_halved_and_one_delivery_is_always_allowed() -> None:
    window = HostWindow(size=6)
    sizes = []
    for _ in range(4):
        window.shrink()
        sizes.append(window.size)
    assert sizes == [3, FIRST_WINDOW, FIRST_WINDOW, FIRST_WINDOW]


def test_what_waits_to_be_settled_takes_no_room() -> None:
    window = HostWindow(size=3, running=2, unsettled=4)
    assert window.leases == 7
    assert not window.is_idle
    assert HostWindow().is_idle

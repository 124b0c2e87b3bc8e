"""A real send to every hostile receiver: the right outcome, within the deadline and the limits."""

from __future__ import annotations

import pytest

from bench.hostile import ALL, Authority, Behaviour, HostileReceiver
from tests.dispatcher.senders import BODY, EVENT_ID, NAME, SHORT, MakeSender


@pytest.mark.parametrize("behaviour", ALL.values(), ids=ALL.keys())
def test_a_send_to_any_hostile_receiver_ends_in_bounds_with_the_right_outcome(
    behaviour: Behaviour, authority: Authority, make_sender: MakeSender
) -> None:
    tls = authority.server_context(behaviour.certificate) if behaviour.certificate else None
    with HostileReceiver(behaviour.serve, tls) as receiver:
        url = f"{behaviour.scheme}://{NAME}:{receiver.port}/hook"
        attempt = make_sender(receiver.port).send(EVENT_ID, url, BODY)
    assert attempt.outcome in behaviour.outcomes, attempt
    assert attempt.cut == behaviour.cut, attempt
    assert attempt.phases.total < (SHORT.total + 5) * 1000, attempt
    assert len(attempt.response_body) <= SHORT.kept_bytes
    assert receiver.connections == 1

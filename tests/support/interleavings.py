"""All interleavings of some operations, each a list of locks: is there one in which everybody waits?

The lists are what was observed (tests/support/lock_order.py). A state is how far each operation has come and
what it holds; from each state every operation that can take its next lock is let go on. Exhaustive, and
small: states that were seen are not looked at again, and locks that nobody else wants are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.support.lock_order import Lock, Step

Path = Sequence[Step]
# For each operation: the number of steps done, and the positions of those whose lock it was given.
Progress = tuple[int, frozenset[int]]
State = tuple[Progress, ...]


def find_deadlock(paths: Sequence[Path]) -> list[str] | None:
    """Who waits for what in a state that nobody leaves, or None when there is no such state."""
    paths = [_wanted_by_others(paths, number) for number in range(len(paths))]
    start: State = tuple((0, frozenset()) for _ in paths)
    seen, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        following = list(_successors(paths, state))
        if not following and any(done < len(path) for (done, _), path in zip(state, paths, strict=True)):
            return _explain(paths, state)
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                waiting.append(successor)
    return None


def _wanted_by_others(paths: Sequence[Path], number: int) -> Path:
    """The steps that could ever wait, or make another wait."""
    others = {
        (step.lock, step.shared) for other, path in enumerate(paths) if other != number for step in path
    }
    return [
        step
        for step in paths[number]
        if (step.lock, False) in others or (not step.shared and (step.lock, True) in others)
    ]


def _successors(paths: Sequence[Path], state: State) -> Iterator[State]:
    for number, (done, given) in enumerate(state):
        if done == len(paths[number]):
            continue
        step = paths[number][done]
        free = not _holders(paths, state, number, step)
        if free or not step.patient:
            progress = (done + 1, given | {done} if free else given)
            yield (*state[:number], progress, *state[number + 1 :])


def _holders(paths: Sequence[Path], state: State, asking: int, step: Step) -> list[int]:
    """Who holds this lock in a way that keeps the asking one from it. At its end, everybody lets go."""
    return [
        number
        for number, (done, given) in enumerate(state)
        if number != asking and done < len(paths[number])
        for position in given
        if paths[number][position].lock == step.lock
        if not (step.shared and paths[number][position].shared)
    ]


def _explain(paths: Sequence[Path], state: State) -> list[str]:
    return [
        f"operation {number} waits for {_next(paths, state, number)}, which {holders} hold"
        for number, (done, _) in enumerate(state)
        if done < len(paths[number])
        for holders in [_holders(paths, state, number, paths[number][done])]
    ]


def _next(paths: Sequence[Path], state: State, number: int) -> Lock:
    return paths[number][state[number][0]].lock

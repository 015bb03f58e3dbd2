"""The prediction queue and the training queue, as their consumers see them: ``for batch in queue:`` and ``close()``.

Both are filled by the one thread that owns the server's socket (``ga3c.messages.exchange``). A consumer takes a
whole batch at once under the lock, so a consumer that leaves never holds anything back.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Queue(Generic[Item]):
    """First in, first out, in batches: at least ``least`` of size, then as much as waits and fits into ``most``.

    ``bound`` says when the queue is full. It refuses nothing then, since what is on the way cannot be called back; who
    fills it has to be held back by whoever looks at ``full``.
    """

    def __init__(
        self,
        size: Callable[[Item], int],
        *,
        least: int = 1,
        most: int = 1,
        bound: int = 0,
        held: Callable[[], bool] = lambda: False,
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._size = size
        self._least = least
        self._most = max(least, most)
        self._bound = bound
        self._held = held
        self._on_room = on_room
        self._items: deque[Item] = deque()
        self._waiting = 0  # size of all items
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """At the bound, and with a batch for a consumer: a queue that nobody can empty yet must hold nobody back."""
        return bool(self._bound) and len(self._items) >= self._bound and self._waiting >= self._least

    def put(self, items: Iterable[Item]) -> None:
        with self._changed:
            for item in items:
                self._items.append(item)
                self._waiting += self._size(item)
            self._changed.notify()

    def wake(self) -> None:
        """Let the consumers look again: what held them back may be gone."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the loop of every consumer, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def waiting(self) -> list[Item]:
        """Everything that waits, and goes on waiting; for a checkpoint."""
        with self._changed:
            return list(self._items)

    def drain(self) -> list[Item]:
        """Everything that still waits; for the count of what a stop throws away."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self._waiting = 0
            return items

    def discard(self, unwanted: Callable[[Item], bool]) -> None:
        """Nobody needs these any more."""
        with self._changed:
            self._items = deque(item for item in self._items if not unwanted(item))
            self._waiting = sum(map(self._size, self._items))

    def take(self) -> list[Item] | None:
        """A batch if there is one, without waiting."""
        with self._changed:
            return self._take_batch() if self._waiting >= self._least else None

    def consumer(self) -> Consumer[Item]:
        return Consumer(self)

    def _take(self, consumer: Consumer[Item]) -> list[Item] | None:
        with self._changed:
            while not (self._closed or consumer.closed) and (self._waiting < self._least or self._held()):
                self._changed.wait()
            if self._closed or consumer.closed:
                self._changed.notify()  # the wake-up may have been meant for work that another can do
                return None
            was_full = self.full
            batch = self._take_batch()
            if self._waiting >= self._least:
                self._changed.notify()
            made_room = was_full and not self.full
        if made_room:
            self._on_room()
        return batch

    def _take_batch(self) -> list[Item]:
        batch: list[Item] = []
        total = 0
        while self._items and (total < self._least or total + self._size(self._items[0]) <= self._most):
            item = self._items.popleft()
            batch.append(item)
            total += self._size(item)
        self._waiting -= total
        return batch


class Consumer(Generic[Item]):
    """One thread's view of a queue: its loop ends when the queue closes or this consumer does."""

    def __init__(self, queue: Queue[Item]) -> None:
        self._queue = queue
        self.closed = False

    def __iter__(self) -> Iterator[list[Item]]:
        while (batch := self._queue._take(self)) is not None:
            yield batch

    def close(self) -> None:
        self.closed = True
        self._queue.wake()

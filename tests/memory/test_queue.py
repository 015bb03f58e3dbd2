"""Queues: batches, bounds, closing while waiting, and counts that match under many producers and consumers."""

import threading

import pytest

from ga3c.memory.queue import Queue
from tests.helpers.waiting import wait_until


def consume(queue):
    """A thread that collects the batches of one consumer; returns (thread, consumer, batches)."""
    consumer, batches = queue.consumer(), []

    def loop():
        for batch in consumer:
            batches.append(batch)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread, consumer, batches


def ints(**options):
    return Queue(lambda item: item, **options)


class Door:
    """Holds the consumers of a queue back until it is open, so that they wait for sure."""

    def __init__(self):
        self.open = False
        self._asked = 0

    def __call__(self):
        self._asked += 1
        return not self.open

    def waiting_at(self, queue, body):
        """A consumer that waits before the items that are there, and does this with each batch; (thread, consumer)."""
        before = self._asked
        consumer = queue.consumer()
        thread = threading.Thread(target=lambda: [body(batch) for batch in consumer], daemon=True)
        thread.start()
        wait_until(lambda: self._asked > before)
        assert queue.waiting  # whoever asked has the lock of this until it waits
        return thread, consumer


def ends(thread):
    thread.join(10)
    return not thread.is_alive()


def test_takes_all_that_waits_up_to_the_most():
    queue = ints(most=10)
    queue.put([3, 3, 3, 2, 3, 3, 4, 1])
    batches = iter(queue.consumer())
    assert next(batches) == [3, 3, 3]  # a fourth would make 11
    assert next(batches) == [2, 3, 3]
    assert next(batches) == [4, 1]
    queue.put([5, 5, 1])
    assert next(batches) == [5, 5]
    assert next(batches) == [1]


def test_takes_nothing_without_waiting_before_the_least_is_there():
    queue = ints(least=10)
    queue.put([4, 5])
    assert queue.take() is None
    queue.put([1, 7])
    assert queue.take() == [4, 5, 1]
    assert queue.take() is None


def test_what_was_drained_counts_no_more():
    queue = ints(least=10)
    queue.put([4, 5])
    assert queue.drain() == [4, 5]
    queue.put([6])
    assert queue.take() is None


def test_an_item_larger_than_the_most_is_taken_alone():
    queue = ints(most=10)
    queue.put([25, 1])
    assert next(iter(queue.consumer())) == [25]


def test_merges_whole_items_until_the_least_is_reached():
    queue = ints(least=10)
    queue.put([4, 4])
    thread, consumer, batches = consume(queue)
    queue.put([1])
    queue.put([3, 5])
    wait_until(lambda: batches)
    assert batches == [[4, 4, 1, 3]]
    assert len(queue) == 1
    consumer.close()
    assert ends(thread)
    assert len(queue) == 1  # who leaves takes nothing along


def test_close_while_waiting_ends_every_loop():
    queue = ints(least=10)
    consumers = [consume(queue) for _ in range(4)]
    queue.put([5])
    queue.close()
    for thread, _, batches in consumers:
        assert ends(thread)
        assert batches == []
    assert queue.drain() == [5]


def test_a_consumer_made_after_close_ends_at_once():
    queue = ints()
    queue.put([1])
    queue.close()
    assert list(queue.consumer()) == []


@pytest.mark.parametrize("leaving", [0, 1])
def test_closing_one_consumer_leaves_the_work_to_the_others(leaving):
    """Whichever of them has waited for longer."""
    door = Door()
    queue, batches = ints(held=door), []
    queue.put([7])
    consumers = [door.waiting_at(queue, batches.append) for _ in range(2)]
    thread, consumer = consumers[leaving]
    consumer.close()
    assert ends(thread)
    assert batches == []
    door.open = True
    queue.wake()
    wait_until(lambda: batches == [[7]])
    queue.close()
    assert ends(consumers[1 - leaving][0])


def test_a_wake_up_for_one_that_leaves_reaches_another():
    door = Door()
    queue, batches = ints(held=door), []
    queue.put([7])
    (thread, consumer), (other, _) = [door.waiting_at(queue, batches.append) for _ in range(2)]
    door.open = True
    consumer.closed = True  # as in the middle of its ``close``, which has not woken anybody up yet
    queue.put([8])  # wakes the one that has waited for longer
    wait_until(lambda: batches == [[7], [8]])
    assert ends(thread)
    queue.close()
    assert ends(other)


def test_full_needs_the_bound_and_a_batch():
    queue = ints(least=10, bound=2)
    queue.put([4, 4])
    assert not queue.full  # at the bound, but no consumer could take a batch: holding producers back would deadlock
    queue.put([4])
    assert queue.full


def test_a_held_queue_waits_until_there_is_room_elsewhere():
    door = Door()
    queue, batches = ints(held=door), []
    queue.put([1, 2])
    thread, _ = door.waiting_at(queue, batches.append)
    assert queue.waiting == [1, 2]
    door.open = True
    queue.wake()
    wait_until(lambda: batches == [[1], [2]])
    queue.close()
    assert ends(thread)


def test_what_is_put_wakes_a_consumer_up():
    door = Door()
    queue, batches = ints(held=door), []
    queue.put([1])
    thread, _ = door.waiting_at(queue, batches.append)
    door.open = True
    queue.put([2])
    wait_until(lambda: batches == [[1], [2]])
    queue.close()
    assert ends(thread)


def test_who_takes_a_batch_wakes_another_up_for_the_next():
    door, together = Door(), threading.Barrier(3, timeout=10)
    queue, batches = ints(held=door), []
    queue.put([1])

    def body(batch):
        batches.append(batch)
        together.wait()  # so that nobody takes a second one

    threads = [door.waiting_at(queue, body)[0] for _ in range(2)]
    door.open = True
    queue.put([2])
    together.wait()
    assert sorted(batches) == [[1], [2]]
    queue.close()
    assert all(map(ends, threads))


def test_taking_tells_that_there_is_room_where_there_was_none():
    told = []
    queue = ints(bound=2, on_room=lambda: told.append(True))
    queue.put([1, 2, 3])
    batches = iter(queue.consumer())
    assert queue.full
    assert next(batches) == [1]
    assert queue.full
    assert told == []
    assert next(batches) == [2]
    assert told == [True]
    assert next(batches) == [3]
    assert told == [True]


def test_many_producers_and_consumers_lose_and_double_nothing():
    queue = Queue(lambda item: 1, least=3, most=8)
    consumers = [consume(queue) for _ in range(16)]
    producers = [
        threading.Thread(target=lambda base=base: [queue.put([base * 1000 + i]) for i in range(200)])
        for base in range(64)
    ]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join(30)
    wait_until(lambda: len(queue) < 3)
    queue.close()
    assert all(ends(thread) for thread, _, _ in consumers)
    taken = [item for _, _, batches in consumers for batch in batches for item in batch]
    left = queue.drain()
    assert sorted(taken + left) == sorted(base * 1000 + i for base in range(64) for i in range(200))
    assert all(3 <= len(batch) <= 8 for _, _, batches in consumers for batch in batches)

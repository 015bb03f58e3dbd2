"""Queues: batches, bounds, closing while waiting, and counts that match under many producers and consumers."""

import threading

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


def test_takes_all_that_waits_up_to_the_most():
    queue = ints(most=10)
    queue.put([3, 3, 3, 3])
    batches = iter(queue.consumer())
    assert next(batches) == [3, 3, 3]  # a fourth would make 12
    assert next(batches) == [3]


def test_an_item_larger_than_the_most_is_taken_alone():
    queue = ints(most=10)
    queue.put([25, 1])
    assert next(iter(queue.consumer())) == [25]


def test_merges_whole_items_until_the_least_is_reached():
    queue = ints(least=10)
    queue.put([4, 4])
    thread, consumer, batches = consume(queue)
    queue.put([1])
    assert batches == []
    queue.put([3, 5])
    wait_until(lambda: batches)
    assert batches == [[4, 4, 1, 3]]
    assert len(queue) == 1
    consumer.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(queue) == 1  # who leaves takes nothing along


def test_close_while_waiting_ends_every_loop():
    queue = ints(least=10)
    consumers = [consume(queue) for _ in range(4)]
    queue.put([5])
    queue.close()
    for thread, _, batches in consumers:
        thread.join(5)
        assert not thread.is_alive()
        assert batches == []
    assert queue.drain() == [5]


def test_a_consumer_made_after_close_ends_at_once():
    queue = ints()
    queue.put([1])
    queue.close()
    assert list(queue.consumer()) == []


def test_closing_one_consumer_leaves_the_work_to_the_others():
    queue = ints()
    first, second = consume(queue), consume(queue)
    first[1].close()
    first[0].join(5)
    queue.put([7])
    wait_until(lambda: second[2] == [[7]])
    queue.close()
    second[0].join(5)


def test_full_needs_the_bound_and_a_batch():
    queue = ints(least=10, bound=2)
    queue.put([4, 4])
    assert not queue.full  # at the bound, but no consumer could take a batch: holding producers back would deadlock
    queue.put([4])
    assert queue.full


def test_a_held_queue_waits_until_there_is_room_elsewhere():
    held = threading.Event()
    held.set()
    queue = ints(held=held.is_set)
    thread, _, batches = consume(queue)
    queue.put([1])
    queue.put([2])
    assert batches == []
    held.clear()
    queue.wake()
    wait_until(lambda: sum(map(sum, batches)) == 3)
    queue.close()
    thread.join(5)


def test_taking_from_a_full_queue_tells_that_there_is_room():
    told = []
    queue = ints(bound=2, on_room=lambda: told.append(True))
    queue.put([1, 1])
    assert queue.full
    assert next(iter(queue.consumer())) == [1]
    assert told == [True]
    queue.put([1])


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
    for thread, _, _ in consumers:
        thread.join(5)
    taken = [item for _, _, batches in consumers for batch in batches for item in batch]
    left = queue.drain()
    assert sorted(taken + left) == sorted(base * 1000 + i for base in range(64) for i in range(200))
    assert all(3 <= len(batch) <= 8 for _, _, batches in consumers for batch in batches)

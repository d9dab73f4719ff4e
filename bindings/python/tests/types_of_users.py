"""A user's program for a type checker: `mypy --strict` accepts it."""

import concurrent.futures

import coreshard


def length(word: str, *, times: int = 1) -> int:
    return len(word) * times


def main() -> int:
    total = 0
    with coreshard.Executor(4, thread_name_prefix="words") as executor:
        future: concurrent.futures.Future[int] = executor.submit(length, "word", times=2)
        total += future.result(timeout=60)
        for size in executor.map(length, ["to", "be"]):
            total += size
    with coreshard.Workqueue("mail", scope="cache", max_active=2) as queue:
        total += queue.submit(length, "a").result()
        work: coreshard.Work = queue.queue_after(3600, length, "b")
        assert work.cancel()
        with queue.every(3600, length, "c") as ticks:
            total += ticks.skipped_ticks
    return total


assert main() == 13

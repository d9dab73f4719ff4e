import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from ._future import Future

P = ParamSpec("P")
T = TypeVar("T")

class Executor(concurrent.futures.Executor):
    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        *,
        computes: bool = False,
    ) -> None: ...
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]: ...

import concurrent.futures
from typing import TypeVar

T = TypeVar("T")

class Future(concurrent.futures.Future[T]): ...

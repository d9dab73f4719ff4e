"""Executors and work queues that scale on many-core Linux machines, and simulations of such machines.

>>> import coreshard
>>> with coreshard.Executor() as executor:
...     list(executor.map(pow, [2, 3, 4], [5, 2, 3]))
[32, 9, 64]
"""

from ._executor import Executor
from ._future import Future
from ._native import Periodic, Work, Workqueue
from .lab import bench, c2c, simulate, topology, tune

__all__ = [
    "Executor",
    "Future",
    "Periodic",
    "Work",
    "Workqueue",
    "bench",
    "c2c",
    "simulate",
    "topology",
    "tune",
]

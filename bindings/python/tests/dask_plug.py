"""A plugin for pytest's -p: Dask's tests run its threaded scheduler on `coreshard.Executor`, with one worker and many."""

import dask

import coreshard

dask.config.set(scheduler="threads", pool=coreshard.Executor(4, thread_name_prefix="dask"))

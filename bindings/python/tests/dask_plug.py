"""For pytest's -p: Dask's own tests run its threaded scheduler on `coreshard.Executor`, those of one worker and of many."""

import dask

import coreshard

dask.config.set(scheduler="threads", pool=coreshard.Executor(4, thread_name_prefix="dask"))

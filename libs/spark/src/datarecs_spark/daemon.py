"""The process from which Spark's Python workers are forked, with our imports already made.

Named by `spark.python.daemon.module`; its own module because Spark runs it as a program.
"""

import gc

import pyspark.daemon

import datarecs_spark.python_columns
import datarecs_spark.sink  # noqa: F401 - workers find both imported

if __name__ == "__main__":
    # Workers collect garbage after every task: what is imported here need not be looked at again.
    gc.freeze()
    pyspark.daemon.manager()

"""The process from which Spark's Python workers are forked, with our imports already made.

Named by `spark.python.daemon.module`; its own module because Spark runs it as a program.
"""

import pyspark.daemon

import datarecs_spark.python_columns  # noqa: F401 - workers find both imported

if __name__ == "__main__":
    pyspark.daemon.manager()

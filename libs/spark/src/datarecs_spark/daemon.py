"""The process that forks Spark's Python workers, with all imports already loaded.

Set as `spark.python.daemon.module`; a separate module because Spark runs it as a program.
"""

import gc
import sys

# Spark puts archives of its Python code before the installed package, which is the same. Every
# task clears import caches, and each importer of an archive then reads its directory anew: 0.15 s.
_ARCHIVES = (".zip", ".jar")
sys.path[:] = [place for place in sys.path if not place.endswith(_ARCHIVES)]
for _place in list(sys.path_importer_cache):
    if any(ending in _place for ending in _ARCHIVES):
        del sys.path_importer_cache[_place]

import pyspark.daemon  # noqa: E402  not before the archives are gone

import datarecs_kernel.sink  # noqa: E402, F401  as above; workers find all imported

if __name__ == "__main__":
    # Workers collect garbage after every task: exclude the objects imported here.
    gc.freeze()
    pyspark.daemon.manager()

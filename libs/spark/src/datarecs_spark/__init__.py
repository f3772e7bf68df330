"""The comparison engine on Spark; the only importer of pyspark."""

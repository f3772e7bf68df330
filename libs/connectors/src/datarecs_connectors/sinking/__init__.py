"""Iceberg tables as a sink writes them: catalogs, files, rows and commits."""

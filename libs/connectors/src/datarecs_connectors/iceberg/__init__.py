"""Tables of Apache Iceberg: catalogs, snapshots, data files and what is deleted from them."""

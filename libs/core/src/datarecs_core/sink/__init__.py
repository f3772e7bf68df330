"""The sink: records of Kafka topics written into Iceberg tables, each exactly once."""

"""Service: iceberg-sink."""

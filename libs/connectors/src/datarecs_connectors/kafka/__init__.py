"""A topic of Kafka as a source: bounded by offsets, read without a group, decoded strictly."""

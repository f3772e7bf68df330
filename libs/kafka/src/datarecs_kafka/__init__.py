"""The event log: client, consumer loop, relay, topics, dead letters."""

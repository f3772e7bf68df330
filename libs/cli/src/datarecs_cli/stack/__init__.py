"""The local stack: Postgres, Kafka and the services as processes of one machine, without Docker."""

"""The platform database: tables, row-level security, unit of work, queues."""

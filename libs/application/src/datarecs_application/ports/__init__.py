"""Every Protocol a use case needs from outside, by what it is about.

`state` the database, `messaging` the event log, `execution` backends of runs, `outside` clock, ids,
secrets and blobs, `delivery` webhooks and mail, `comparing` connectors and engines. Ports are
synchronous; one with state has a conformance suite in `datarecs_testing.conformance`.
"""

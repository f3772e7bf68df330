"""REST: one function per route, calling one use case or one query."""

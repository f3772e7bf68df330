"""Which URLs are well formed and which addresses may be dialled; sockets live in the adapters."""

"""One comparison on this machine without a server: its job, its engine and its result files."""

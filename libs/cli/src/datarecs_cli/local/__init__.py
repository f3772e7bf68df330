"""One comparison on this machine without a server: what to ask, with what to answer, what stays."""

"""A run: one asking of a job's question, from trigger to one authoritative end."""

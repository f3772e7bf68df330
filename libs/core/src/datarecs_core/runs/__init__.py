"""A run: one execution of a job, from trigger to one authoritative end."""

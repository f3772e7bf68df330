"""Repositories of the catalogue: objects, snapshots, statistics, and what is collected."""

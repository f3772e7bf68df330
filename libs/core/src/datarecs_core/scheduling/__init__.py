"""Schedules: when a job runs without a person, and what became of each time."""

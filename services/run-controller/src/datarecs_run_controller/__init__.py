"""Submits runs, closes runs, relays the outbox."""

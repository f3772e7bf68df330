"""Processes that are killed at named places, and the ledger of what came out of it."""

"""Processes that are killed at named places, and the ledger of the results."""

"""Reconciliation jobs: what a person declares."""

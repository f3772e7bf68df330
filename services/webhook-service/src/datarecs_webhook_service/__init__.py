"""Signed webhook deliveries."""

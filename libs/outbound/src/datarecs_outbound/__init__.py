"""Outgoing calls over the network: webhooks and mail."""

"""Webhooks: which endpoint gets which event, how a request is signed, when it is tried again."""

"""Everything we call over the network: webhooks and mail."""

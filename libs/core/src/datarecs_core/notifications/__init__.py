"""Mail about finished runs: rules, recipients, one mail per recipient and run."""

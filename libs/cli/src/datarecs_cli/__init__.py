"""The datarecs command and the local stack."""

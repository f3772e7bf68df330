"""The error catalogue: one entry per code, one module per family, one root exception."""

"""Comparing: plans, canonical values, tolerances, verdicts, and the oracle that shows them."""

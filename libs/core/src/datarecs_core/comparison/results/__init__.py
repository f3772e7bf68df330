"""What a stage yields: counts, differences, fingerprints, verdicts."""

"""What differences have in common, and the verdicts under other tolerances."""

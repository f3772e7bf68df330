"""Table definitions, one file per concept; imported by this library alone."""

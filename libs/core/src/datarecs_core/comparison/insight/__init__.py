"""What differences have in common, and what other tolerances would have said."""

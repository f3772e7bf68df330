"""One mail per recipient and run."""

"""REST and live feed."""

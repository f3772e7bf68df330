"""From a job to the plan: what is read, compared and judged, frozen before a row is read."""

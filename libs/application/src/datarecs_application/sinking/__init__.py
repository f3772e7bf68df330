"""The sink at work: worker, coordinator and the task that runs both."""

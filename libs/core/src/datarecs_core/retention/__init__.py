"""How long the platform keeps runs, their differences, mails and ticks of schedules."""

"""The common parts of all processes: settings, logs, metrics, health, loops, secrets."""

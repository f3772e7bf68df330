"""What every process needs: settings, logs, metrics, health, loops, secrets."""

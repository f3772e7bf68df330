"""The service that makes declarations come true: it decides schedules and reconciles jobs."""

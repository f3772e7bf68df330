"""The service that makes declarations come true over time; today it decides schedules."""

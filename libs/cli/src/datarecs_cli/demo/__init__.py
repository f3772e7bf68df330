"""The demo: two small books with some differences, compared by the platform."""

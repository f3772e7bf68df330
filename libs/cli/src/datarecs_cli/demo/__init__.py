"""The demo: two small books that nearly agree, and what the platform says about them."""

"""The required behaviour of every implementation of a port; one module per port."""

"""Principals, their tenants and their permissions."""

"""Who asks, on behalf of which tenant, and what they may."""

"""Every rule of datarecs: pure decisions, no dependencies, no I/O."""

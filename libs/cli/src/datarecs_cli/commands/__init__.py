"""One module per group of sub-commands; `main` imports the one that is asked for, and no other."""

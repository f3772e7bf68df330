"""One module per group of sub-commands; `main` imports only the module of the command that runs."""

"""`python -m datarecs_cli`: the same as `datarecs`; a supervisor starts itself again with it."""

from datarecs_cli.start import main

if __name__ == "__main__":
    main()

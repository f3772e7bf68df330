"""`python -m datarecs_cli`: the same as `datarecs`, for a supervisor that starts itself again."""

from datarecs_cli.main import main

if __name__ == "__main__":
    main()

"""Types and files of sources that are rarely alike: one table of cases for every engine."""

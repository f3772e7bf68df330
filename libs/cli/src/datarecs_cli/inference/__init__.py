"""`datarecs init A B`: from two samples to a job that a person then corrects."""

"""`datarecs init A B`: proposes a job from two samples, for a person to correct."""

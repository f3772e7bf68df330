"""The reference: a stage over plain lists, as in the specification, without optimisation."""

"""The reference: a stage over plain lists, as the specification says it and no faster."""

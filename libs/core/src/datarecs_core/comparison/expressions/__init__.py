"""The language of job expressions: `filter`, `columns.L.expr` and `where`.

One parser, one table of what is allowed, one set of types and one SQL text per database. The
parser is in core because the planner takes column names and types from the tree, and the tree
holds nothing that is not in the table.
"""

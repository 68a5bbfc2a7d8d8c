"""Everything on Spark: traces in, tables, audits and reports out."""

"""Columns as a data source: dictionaries and tuples of arrays, structured arrays, and data frames."""

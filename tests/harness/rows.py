"""Rows that a subscriber collects from published tables and logged columns."""

from . import kdb


class Rows:
    """Tables by name; each a dict of column name -> list."""

    def __init__(self):
        self.tables = {}
        self.updates = 0

    def define(self, name, schema):
        """Sets a table to a schema's empty copy, as `.[name;();:;schema]` does."""
        self.tables[name] = {column: [] for column in schema.v}

    def upd(self, name, data):
        """`upd:insert`: a table from the live feed, or a list of columns or atoms from a log."""
        table = self.tables[name]
        columns = list(data.v.values()) if data.t == kdb.TABLE else data.v
        if len(columns) != len(table):
            raise ValueError(f"{name} has {len(table)} columns, the update has {len(columns)}")
        for held, column in zip(table.values(), columns):
            held.extend([column.v] if column.t < 0 else column.v)
        self.updates += 1

    def clear(self):
        for table in self.tables.values():
            for column in table.values():
                column.clear()

    def column(self, table, name):
        return self.tables[table][name]

    def seqs(self, table="trade"):
        """The `seq` column: row numbers in the order of arrival."""
        return self.tables[table]["seq"]

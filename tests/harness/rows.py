"""Rows as a subscriber gathers them, from live tables and from logged columns alike."""

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
        """`upd:insert`: a table comes live, a list of columns (or of atoms) from a log."""
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
        """The `seq` column: which rows are held, in the order in which they came."""
        return self.tables[table]["seq"]

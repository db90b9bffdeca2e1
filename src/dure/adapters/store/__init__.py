"""StorePort on SQL: SQLite (embedded default) or PostgreSQL, by URL.

`tables` is the schema, `migrations` how it came about, `sql` the store itself, `connect` opens one.
"""

from dure.adapters.store.connect import open_store
from dure.adapters.store.sql import SqlStore

__all__ = ["SqlStore", "open_store"]

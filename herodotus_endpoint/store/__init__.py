"""The store: decisions in a SQL database. No other package contains SQL.

Owns: what the rest of the decisions service may use of the store. Does not own: HTTP, documents.
"""

from herodotus_endpoint.store.database import Database, StoreError, StoreFullError, StoreUnavailableError
from herodotus_endpoint.store.integrity import DamagedError
from herodotus_endpoint.store.node_rows import NodeRowsMissingError
from herodotus_endpoint.store.query_results import (
    AttemptOrigin,
    ClusterStatus,
    IncarnationStatus,
    PodWait,
    StoredAttempt,
    StoreSizes,
)
from herodotus_endpoint.store.retention import Pruner, PruneResult, PruningThread
from herodotus_endpoint.store.retention_limits import RetentionLimits
from herodotus_endpoint.store.sqlite import sqlite_url
from herodotus_endpoint.store.store import Store, check_read_url, database_from_url, prepare_database
from herodotus_endpoint.store.writer import BatchError, ForeignClusterError, IngestReceipt

__all__ = [
    "AttemptOrigin",
    "BatchError",
    "ClusterStatus",
    "DamagedError",
    "Database",
    "ForeignClusterError",
    "IncarnationStatus",
    "IngestReceipt",
    "NodeRowsMissingError",
    "PodWait",
    "PruneResult",
    "Pruner",
    "PruningThread",
    "RetentionLimits",
    "Store",
    "StoreError",
    "StoreFullError",
    "StoreSizes",
    "StoreUnavailableError",
    "StoredAttempt",
    "check_read_url",
    "database_from_url",
    "prepare_database",
    "sqlite_url",
]

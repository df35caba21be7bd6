"""The tables of the database, in SQLAlchemy Core.

Owns: table and column names, keys, and indexes with their purpose. Does not own: creating the tables (`migrations`,
which a test compares with this module), statements.

On PostgreSQL decisions and outcomes are partitioned by `tier` and `ingested_us`, which are then part of their keys.

Invariant: no table has a row per node and decision. A decision is one row with its frame as a blob. Counts per node
over many decisions are in `rollups`, one blob per bucket and part of the nodes.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()

FULL: Final = 0  # tiers: full records in their first partition
KEPT_LONGER: Final = 1  # full records, moved out of a partition before it was dropped
SUMMARY: Final = 2  # summaries, see the module `summaries`
UNSUCCESSFUL: Final = ("Unschedulable", "Error", "Failed")  # states of decisions after which a pod still waits
_OPEN: Final = sa.text("state = 'Binding'")
_IN_GROUP: Final = sa.text("pod_group IS NOT NULL")
_PREEMPTING: Final = sa.text("victims IS NOT NULL")
_FAILED: Final = sa.text("state IN ('Unschedulable', 'Error', 'Failed')")

# One row: the oldest revision whose service can use the schema. A revision that removes or changes what that service
# needs writes its own number here; a revision that only adds does not change it.
USABLE_FROM: Final = sa.Table("usable_from", METADATA, sa.Column("revision", sa.String, primary_key=True))

# One row: an identity that shows when another database has replaced this one.
IDENTITY: Final = sa.Table("store_identity", METADATA, sa.Column("id", sa.String, primary_key=True))

# One row: the time of retention (see `retention_clock`), and how many decisions retention removed by age today.
CLOCK: Final = sa.Table(
    "retention_clock",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("day_us", sa.BigInteger, nullable=False, server_default="0"),  # start of the current day of the quota
    sa.Column("held", sa.BigInteger, nullable=False, server_default="0"),  # decisions stored at that start
    sa.Column("removed", sa.BigInteger, nullable=False, server_default="0"),  # decisions removed by age since
)

# One row: a counter that each process increments to measure how far replicas are behind (see `replicas`).
HEARTBEAT: Final = sa.Table(
    "heartbeat",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("beat", sa.BigInteger, nullable=False),
)

# One run of a scheduler process, and which of its sequence numbers have arrived.
INCARNATIONS: Final = sa.Table(
    "incarnations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),  # in order of first contact
    sa.Column("incarnation", sa.String, nullable=False, unique=True),
    sa.Column("cluster", sa.String, nullable=False),  # "" until a frame names it
    sa.Column("identity", sa.String, nullable=False),
    sa.Column("rows_generation", sa.BigInteger, nullable=False),  # -1: no complete node table yet
    sa.Column("highest", sa.BigInteger, nullable=False),  # highest sequence seen; below it, all but `holes` arrived
    sa.Column("first_us", sa.BigInteger, nullable=False),  # ingest of the first frame
    sa.Column("last_us", sa.BigInteger, nullable=False),
    sa.Column("ingested_us", sa.BigInteger, nullable=True),  # ingest of the last frame, in the time of retention
)

# The profiles of an incarnation. A later incarnation with the same profile has replaced it.
PROFILES: Final = sa.Table(
    "incarnation_profiles",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("profile", sa.String, primary_key=True),
    sa.Column("first_us", sa.BigInteger, nullable=False),  # start of its first decision
    sqlite_with_rowid=False,
)

# Ranges of sequence numbers that did not arrive: missing, explained by a Gap frame, or left out of an import.
HOLES: Final = sa.Table(
    "holes",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("first", sa.BigInteger, primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("explained", sa.Boolean, nullable=False),
    sa.Column("left_out", sa.Boolean, nullable=False, server_default=sa.false()),  # see `sequences`
    sqlite_with_rowid=False,
)

GAPS: Final = sa.Table(
    "gaps",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.String, nullable=False),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("ingested_us", sa.BigInteger, nullable=False),
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sqlite_with_rowid=False,
)

# The store's dense node ids. Slots are reused, ids are not.
NODES: Final = sa.Table(
    "nodes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("uid", sa.String, nullable=False),
    sa.Column("considered", sa.Boolean, nullable=False),  # whether any decision had the node in its node table
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sa.UniqueConstraint("name", "cluster", "uid"),
)

# The node table, append-only. At generation g the row with the greatest `since` <= g describes a slot.
NODE_ROWS: Final = sa.Table(
    "node_rows",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("slot", sa.Integer, primary_key=True),
    sa.Column("since", sa.BigInteger, primary_key=True),
    sa.Column("node_id", sa.Integer, nullable=True),  # null: the slot became free
    sa.Column("amounts", sa.LargeBinary, nullable=False),  # MessagePack: resource -> [allocatable, requested]
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sa.Index("node_rows_by_node", "incarnation_id", "node_id", "since"),
    sa.Index("node_rows_by_since", "incarnation_id", "since"),  # what differs between two generations
    sqlite_with_rowid=False,
)

DECISIONS: Final = sa.Table(
    "decisions",
    METADATA,
    sa.Column(
        "id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True
    ),  # in order of ingest: pages and retention follow it
    sa.Column("incarnation_id", sa.Integer, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("decision_id", sa.String, nullable=False),
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("source", sa.String, nullable=False),
    sa.Column("profile", sa.String, nullable=False),
    sa.Column("namespace", sa.String, nullable=False),
    sa.Column("pod", sa.String, nullable=False),
    sa.Column("pod_uid", sa.String, nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String, nullable=True),  # Kind/name as recorded
    sa.Column("started_us", sa.BigInteger, nullable=False),
    sa.Column("ingested_us", sa.BigInteger, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("path", sa.String, nullable=False),
    sa.Column("state", sa.String, nullable=False),  # see `explain.derive_state`; outcomes update it
    sa.Column("node", sa.String, nullable=True),  # the chosen node
    sa.Column("nodes_total", sa.Integer, nullable=False),
    sa.Column("nodes_evaluated", sa.Integer, nullable=False),
    sa.Column("nodes_feasible", sa.Integer, nullable=False),
    sa.Column("message", sa.String, nullable=False),
    sa.Column("message_names_nobody", sa.Boolean, nullable=True),  # see `disclosure`
    sa.Column(
        "agreement", sa.String, nullable=True
    ),  # whether another scheduler's outcome agrees with the reconstruction
    sa.Column("cause", sa.String, nullable=True),  # why they disagree
    sa.Column("frame", sa.LargeBinary, nullable=False),  # see `delta_chains`
    sa.Column("base", sa.BigInteger, nullable=True),  # sequence of its key frame
    sa.Column("tier", sa.Integer, nullable=False, server_default="0"),
    sa.Column("frame_bytes", sa.Integer, nullable=True),  # length of `frame`
    sa.Column("labels", sa.String, nullable=True),  # the pod's, see `labels.format_labels`
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sa.Column("pod_group", sa.String, nullable=True),  # name of the pod's PodGroup
    sa.Column("group_cycle", sa.BigInteger, nullable=True),  # number of the group's cycle in the incarnation
    sa.Column("group_position", sa.BigInteger, nullable=True),  # position of the pod in the cycle
    sa.Column("victims", sa.String, nullable=True),  # pods that it evicted, as ",NAMESPACE/POD,NAMESPACE/POD,"
    sa.Column(
        "repeats", sa.BigInteger, nullable=False, server_default="0"
    ),  # later attempts that equal it and have no row; outcomes update it
    sa.UniqueConstraint("incarnation_id", "sequence"),
    sa.Index("decisions_by_chain", "incarnation_id", "tier", "base"),  # all members of a chain
    sa.Index("decisions_by_tier", "tier", "id", "frame_bytes"),  # the oldest of a tier, and sizes; SQLite only
    sa.Index(
        "decisions_by_pod", "pod", "namespace", "started_us"
    ),  # also a name in other namespaces, and similar names
    sa.Index("decisions_by_namespace", "namespace", "id"),
    sa.Index("decisions_unsuccessful", "namespace", "id", sqlite_where=_FAILED, postgresql_where=_FAILED),
    sa.Index("decisions_open", "cluster", "id", sqlite_where=_OPEN, postgresql_where=_OPEN),  # without a stored result
    sa.Index("decisions_by_decision_id", "decision_id"),
    sa.Index(
        "decisions_by_pod_group", "pod_group", "namespace", "id", sqlite_where=_IN_GROUP, postgresql_where=_IN_GROUP
    ),  # members of a group, and similar names of groups
    sa.Index(  # on PostgreSQL "id" alone: its entries have a maximum size, and its rows hold frames elsewhere
        "decisions_preempting",
        "id",
        "started_us",
        "victims",
        sqlite_where=_PREEMPTING,
        postgresql_where=_PREEMPTING,
    ),
)

OUTCOMES: Final = sa.Table(
    "outcomes",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("decision_sequence", sa.BigInteger, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("state", sa.String, nullable=True),  # state of the decision after it; null if it is not final
    sa.Column("ingested_us", sa.BigInteger, nullable=False),
    sa.Column("frame", sa.LargeBinary, nullable=False),  # uncompressed: 200 bytes
    sa.Column(
        "tier", sa.Integer, nullable=False, server_default="0"
    ),  # tier of its decision; summaries contain their outcomes
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sqlite_with_rowid=False,
)

# Schedulers that answer reviews; each repeats its registration while it leads.
REVIEWERS: Final = sa.Table(
    "reviewers",
    METADATA,
    sa.Column("cluster", sa.String, primary_key=True),
    sa.Column("scheduler", sa.String, primary_key=True),
    sa.Column("seen_us", sa.BigInteger, nullable=False),  # negative: it was last seen then, and has closed its request
    sqlite_with_rowid=False,
)

# Pending reviews. They are stored because the client and the scheduler may reach different replicas. A row is deleted
# when its client stops waiting.
REVIEWS: Final = sa.Table(
    "reviews",
    METADATA,
    sa.Column("id", sa.String, primary_key=True),  # in order of creation
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("scheduler", sa.String, nullable=False),
    sa.Column("asked_us", sa.BigInteger, nullable=False),
    sa.Column("taken", sa.Boolean, nullable=False),  # claimed by a scheduler
    sa.Column("question", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=True),
    sa.Column("answer_type", sa.String, nullable=False),  # media type; "" until the answer is stored
)

# Counters per node, one columnar blob per key; see the module `rollups`.
ROLLUPS: Final = sa.Table(
    "rollups",
    METADATA,
    sa.Column("bucket", sa.BigInteger, primary_key=True),  # hours since the epoch, of the decisions' start
    sa.Column("cluster", sa.String, primary_key=True),
    sa.Column("profile", sa.String, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),  # part of the nodes
    sa.Column("ingested_us", sa.BigInteger, nullable=False),  # ingest of the newest decision in it
    sa.Column("counters", sa.LargeBinary, nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False, server_default="0"),  # number of nodes in the blob
    sa.Column("chosen", sa.BigInteger, nullable=False, server_default="0"),  # placements on these nodes
    sa.Index("rollups_by_part", "part", "bucket"),  # history of one node
    sa.Index(
        "rollups_in_sum", "bucket", "cluster", "profile", "nodes", "chosen"
    ),  # totals of all nodes without reading blobs
)

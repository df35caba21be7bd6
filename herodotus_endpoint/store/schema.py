"""The tables, as SQLAlchemy Core sees them.

Owns: table and column names, keys, indexes and what each is for. Does not own: how a database comes to have them
(`migrations`, which a test compares with this file), or any statement.

On PostgreSQL decisions and outcomes are partitioned by `tier` and `ingested_us`, which are then part of their keys.

Invariant: nothing here is per node and decision. A decision is one row with its frame as a blob; what is asked per node
over many decisions is in `rollups`, one blob a bucket.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()

FULL: Final = 0  # tiers: the whole record, where it was stored
KEPT_LONGER: Final = 1  # the whole record, moved out of a partition that went
SUMMARY: Final = 2  # see `summaries`
UNSUCCESSFUL: Final = ("Unschedulable", "Error", "Failed")  # states of decisions after which a pod still waits
_OPEN: Final = sa.text("state = 'Binding'")
_FAILED: Final = sa.text("state IN ('Unschedulable', 'Error', 'Failed')")

# One row: the oldest revision whose service can use the schema as it is. A revision that takes away or changes what
# that service needs says itself here; one that only adds leaves it as it is.
USABLE_FROM: Final = sa.Table("usable_from", METADATA, sa.Column("revision", sa.String, primary_key=True))

# One row: made with the database, so that another database in its place is noticed.
IDENTITY: Final = sa.Table("store_identity", METADATA, sa.Column("id", sa.String, primary_key=True))

# One row: the time that retention goes by (see `clock`), and how much left by age in the day under way.
CLOCK: Final = sa.Table(
    "retention_clock",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("day_us", sa.BigInteger, nullable=False, server_default="0"),  # when the day under way began
    sa.Column("held", sa.BigInteger, nullable=False, server_default="0"),  # decisions stored then
    sa.Column("removed", sa.BigInteger, nullable=False, server_default="0"),  # by age since then
)

# One life of a scheduler process, and what of its contiguous sequence has arrived.
INCARNATIONS: Final = sa.Table(
    "incarnations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),  # in order of first contact
    sa.Column("incarnation", sa.String, nullable=False, unique=True),
    sa.Column("cluster", sa.String, nullable=False),  # "" until a frame says it
    sa.Column("identity", sa.String, nullable=False),
    sa.Column("rows_generation", sa.BigInteger, nullable=False),  # -1: no complete node table yet
    sa.Column("highest", sa.BigInteger, nullable=False),  # highest sequence seen; below it, all but `holes` arrived
    sa.Column("first_us", sa.BigInteger, nullable=False),  # ingest of the first frame
    sa.Column("last_us", sa.BigInteger, nullable=False),
    sa.Column("ingested_us", sa.BigInteger, nullable=True),  # as `last_us`, in the time of retention
)

# Which profiles an incarnation has decided for, and when: a later one for the same profile has replaced it.
PROFILES: Final = sa.Table(
    "incarnation_profiles",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("profile", sa.String, primary_key=True),
    sa.Column("first_us", sa.BigInteger, nullable=False),  # start of its first decision
    sqlite_with_rowid=False,
)

# Sequences that were passed over: missing, explained by a Gap frame, or left out of what was imported.
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

# The store's own dense node ids: slots are reused, these are not.
NODES: Final = sa.Table(
    "nodes",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("uid", sa.String, nullable=False),
    sa.Column("considered", sa.Boolean, nullable=False),  # whether any decision had it in its table
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sa.UniqueConstraint("name", "cluster", "uid"),
)

# The node table, append-only: at generation g a slot is as its row with the greatest `since` <= g says.
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
    sa.Column("state", sa.String, nullable=False),  # as `explain.state` says, kept up by outcomes
    sa.Column("node", sa.String, nullable=True),  # the chosen node
    sa.Column("nodes_total", sa.Integer, nullable=False),
    sa.Column("nodes_evaluated", sa.Integer, nullable=False),
    sa.Column("nodes_feasible", sa.Integer, nullable=False),
    sa.Column("message", sa.String, nullable=False),
    sa.Column("message_names_nobody", sa.Boolean, nullable=True),  # see `disclosure`; null: stored before it
    sa.Column("agreement", sa.String, nullable=True),  # of another scheduler's outcome with what was reconstructed
    sa.Column("cause", sa.String, nullable=True),  # why it does not agree
    sa.Column("frame", sa.LargeBinary, nullable=False),  # see `chains`
    sa.Column("base", sa.BigInteger, nullable=True),  # sequence of its key frame; null: stored before there were chains
    sa.Column("tier", sa.Integer, nullable=False, server_default="0"),
    sa.Column("frame_bytes", sa.Integer, nullable=True),  # length of `frame`; null: stored before there were tiers
    sa.Column("labels", sa.String, nullable=True),  # the pod's, as `labels.written`; null: stored before it
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sa.UniqueConstraint("incarnation_id", "sequence"),
    sa.Index("decisions_by_chain", "incarnation_id", "tier", "base"),  # a chain goes whole
    sa.Index("decisions_by_tier", "tier", "id", "frame_bytes"),  # what is next to leave, sizes; SQLite alone
    sa.Index("decisions_by_pod", "pod", "namespace", "started_us"),  # also: a name in other namespaces, names alike
    sa.Index("decisions_by_namespace", "namespace", "id"),
    sa.Index("decisions_unsuccessful", "namespace", "id", sqlite_where=_FAILED, postgresql_where=_FAILED),  # a few
    sa.Index("decisions_open", "cluster", "id", sqlite_where=_OPEN, postgresql_where=_OPEN),  # those under way, few
    sa.Index("decisions_by_decision_id", "decision_id"),
)

OUTCOMES: Final = sa.Table(
    "outcomes",
    METADATA,
    sa.Column("incarnation_id", sa.Integer, primary_key=True),
    sa.Column("decision_sequence", sa.BigInteger, primary_key=True),
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("state", sa.String, nullable=True),  # what it makes of its decision; null while others follow
    sa.Column("ingested_us", sa.BigInteger, nullable=False),
    sa.Column("frame", sa.LargeBinary, nullable=False),  # uncompressed: 200 bytes
    sa.Column("tier", sa.Integer, nullable=False, server_default="0"),  # of its decision; summaries hold theirs
    sa.Column("checksum", sa.BigInteger, nullable=True),  # see `integrity`
    sqlite_with_rowid=False,
)

# Who asks for reviews: schedulers, each again and again while it leads.
REVIEWERS: Final = sa.Table(
    "reviewers",
    METADATA,
    sa.Column("cluster", sa.String, primary_key=True),
    sa.Column("scheduler", sa.String, primary_key=True),
    sa.Column("seen_us", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Reviews under way, for as long as their askers wait: the replica that is asked need not be the one that the scheduler
# asks. Nothing of them stays.
REVIEWS: Final = sa.Table(
    "reviews",
    METADATA,
    sa.Column("id", sa.String, primary_key=True),  # in order of asking
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("scheduler", sa.String, nullable=False),
    sa.Column("asked_us", sa.BigInteger, nullable=False),
    sa.Column("taken", sa.Boolean, nullable=False),  # by a scheduler
    sa.Column("question", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=True),
    sa.Column("answer_type", sa.String, nullable=False),  # its media type; "" until there is one
)

# Counters per node, one columnar blob a key; see `rollups`.
ROLLUPS: Final = sa.Table(
    "rollups",
    METADATA,
    sa.Column("bucket", sa.BigInteger, primary_key=True),  # hours since the epoch, of the decisions' start
    sa.Column("cluster", sa.String, primary_key=True),
    sa.Column("profile", sa.String, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),  # of the nodes; -1: all, stored before there were parts
    sa.Column("ingested_us", sa.BigInteger, nullable=False),  # of the newest decision in it
    sa.Column("counters", sa.LargeBinary, nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False, server_default="0"),  # how many it counts
    sa.Column("chosen", sa.BigInteger, nullable=False, server_default="0"),  # how often one of them was
    sa.Index("rollups_by_part", "part", "bucket"),  # a node's history
    sa.Index("rollups_in_sum", "bucket", "cluster", "profile", "nodes", "chosen"),  # all nodes', without their blobs
)

"""The audit log and API tokens."""

from alembic import op

from dure.adapters.store import tables as t

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None
serves = "0002"

_TABLES = (t.audit, t.audit_head, t.tokens)


def upgrade() -> None:
    for table in _TABLES:
        # The first schema makes every table there is by now.
        table.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    for table in reversed(_TABLES):
        table.drop(op.get_bind())

"""The double-entry ledger by hour."""

from alembic import op

from dure.adapters.store.tables import ledger

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None
serves = "0003"


def upgrade() -> None:
    ledger.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    ledger.drop(op.get_bind(), checkfirst=True)

"""The first schema."""

from alembic import op

from dure.adapters.store.tables import metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
serves = "0001"


def upgrade() -> None:
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    metadata.drop_all(op.get_bind())

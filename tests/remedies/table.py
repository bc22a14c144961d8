"""The table: every failure that is produced, and what its message says to do."""

from __future__ import annotations

from tests.remedies import job_rows
from tests.remedies.rows import Row

ROWS: tuple[Row, ...] = (*job_rows.ROWS,)

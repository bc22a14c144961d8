"""The table: every failure that is produced, and what its message says to do."""

from __future__ import annotations

from tests.remedies import controller_rows, doctor_rows, inventory_rows, job_rows, login_rows, run_rows, start_rows
from tests.remedies.rows import Row

ROWS: tuple[Row, ...] = (
    *inventory_rows.ROWS,
    *job_rows.ROWS,
    *start_rows.ROWS,
    *run_rows.ROWS,
    *controller_rows.ROWS,
    *login_rows.ROWS,
    *doctor_rows.ROWS,
)

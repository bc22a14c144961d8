"""The table: every failure that is produced, and what its message says to do."""

from __future__ import annotations

from tests.remedies import (
    controller_rows,
    doctor_rows,
    full_disk_rows,
    inventory_rows,
    job_rows,
    login_rows,
    run_rows,
    server_rows,
    start_rows,
)
from tests.remedies.rows import Row

ROWS: tuple[Row, ...] = (
    *inventory_rows.ROWS,
    *job_rows.ROWS,
    *start_rows.ROWS,
    *run_rows.ROWS,
    *controller_rows.ROWS,
    *login_rows.ROWS,
    *server_rows.ROWS,
    *full_disk_rows.ROWS,
    *doctor_rows.ROWS,
)

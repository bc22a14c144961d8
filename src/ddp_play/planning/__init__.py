"""From a job and the facts of hosts to a plan. Pure: the same input gives the same plan; nothing is read or written."""

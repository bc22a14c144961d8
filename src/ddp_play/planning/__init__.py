"""Plans of jobs, made from job and host facts. Pure: the same input gives the same plan; no file is read or written."""

"""The one error a user of the trainer is meant to read: no traceback, exit code 2."""


class TrainerError(Exception):
    """Bad arguments, missing or corrupt files, ranks that do not fit together; its text says what to do."""

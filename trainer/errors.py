"""Error of the trainer for its user: printed as one line without a traceback, exit code 2."""


class TrainerError(Exception):
    """Wrong arguments, missing or damaged files, or ranks with different options; the text says what to do."""

"""A requested stop."""

import signal

from trainer import stop_request


def test_sigterm_sets_a_flag_only_inside_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_request.stop_on_sigterm() as flag:
        assert not flag.requested
        signal.raise_signal(signal.SIGTERM)
        assert flag.requested
    assert signal.getsignal(signal.SIGTERM) is before
    assert stop_request.EXIT_CODE == 143

"""Limit of open files while there are channels to many hosts."""

from __future__ import annotations

import resource

from ddp_play.run.file_limit import more_files


def test_the_soft_limit_is_the_hard_one_within_the_context() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        with more_files():
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
            with more_files():
                assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(256, hard), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""Address of a host on the ranks' network."""

from trainer.plain_tcp import local_address


def test_the_address_of_the_ranks_network() -> None:
    assert local_address({"GLOO_SOCKET_IFNAME": "lo"}) == "127.0.0.1"
    assert local_address({"NCCL_SOCKET_IFNAME": "=lo", "MASTER_ADDR": "192.0.2.1"}) == "127.0.0.1"
    assert local_address({"GLOO_SOCKET_IFNAME": "no-such-thing", "MASTER_ADDR": "127.0.0.1"}) == "127.0.0.1"
    assert local_address({"MASTER_ADDR": "::1"}) == "::1"

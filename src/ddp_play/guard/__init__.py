"""The program that runs on the hosts: standard library only, Python 3.9 and up, shipped as one zip file.

    facts     host facts (discovery)
    channel   host side of the controller's channel: prepare, go, follow, fetch, clean
    guard     the process that owns this run's ranks on this host while the run lasts

It never imports the rest of ddp_play and the rest never runs on a host.
"""

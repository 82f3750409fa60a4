"""What listeners look at: nothing, unless the process takes rules."""

from __future__ import annotations

from hsdns.assemble import ListenAddress
from hsdns.eager import Spawn
from hsdns.metrics import Registry
from hsdns.server.admission import Places
from hsdns.server.listener_faults import NO_FAULTS, ListenerFaults
from hsdns.server.opener import Opener
from hsdns.server.runtime import Tasks
from hsdns.server.settings import DEFAULT_SETTINGS
from hsdns.server.sockets import open_all
from hsdns.server.tcp_listener import TcpListener
from hsdns.server.udp_listener import UdpListener
from tests.support.servers.function_processor import asked_address, processor


def test_no_rule_stands() -> None:
    for each in (NO_FAULTS, ListenerFaults(), TcpListener.faults, UdpListener.faults):
        assert (each.connect, each.shed) == (None, None)


def test_the_listeners_of_a_process_have_one_in_common() -> None:
    spawn: Spawn = Tasks().spawn
    opener = Opener(Registry(), spawn, lambda: 0.0, 1, Places(4))
    for scheme, server in (("dns", "dns://:53"), ("tls", "tls://:853"), ("https", "https://:443")):
        sockets = open_all(ListenAddress("127.0.0.1", 0, scheme))
        listener = opener.make(sockets, processor(asked_address, server), DEFAULT_SETTINGS)
        assert {id(part.faults) for part in listener.parts} == {id(opener.faults)}
        sockets.close()

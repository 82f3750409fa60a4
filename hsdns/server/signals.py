"""The effects of signals on the server, as in CoreDNS.

Path: cli/launch.py calls handle_signals() before the server starts.
Source: CoreDNS's copy of Caddy, sigtrap.go and sigtrap_posix.go.
Rule 1: process 1 of a container has no default actions, so every relevant signal is handled from the beginning.
"""

from __future__ import annotations

import asyncio
import logging
import signal

from hsdns.server.lifecycle import Server

log = logging.getLogger("hsdns.server")


def handle_signals(server: Server) -> None:
    """Install handlers for the signals that end or reload the server; called before start(), in the running loop."""

    def terminate() -> None:
        log.info("SIGTERM: Shutting down servers then terminating")
        server.spawn(server.shut_down(), "shut down")

    def interrupt() -> None:
        if server.stopping:
            log.info("SIGINT: Force quit")
            server.quit(2)
            return
        log.info("SIGINT: Shutting down")
        server.spawn(server.shut_down(), "shut down")

    def quit_now() -> None:
        log.info("SIGQUIT: Quitting process immediately")
        server.quit(0)

    def reload() -> None:
        log.info("SIGUSR1: Reloading")
        server.spawn(server.reload(), "reload")

    def ignore_upgrade() -> None:
        log.warning("SIGUSR2: hsdns does not exchange its binary while it runs; ignored")

    handlers = {
        signal.SIGTERM: terminate,
        signal.SIGINT: interrupt,
        signal.SIGQUIT: quit_now,
        signal.SIGUSR1: reload,
        signal.SIGHUP: lambda: None,
        signal.SIGUSR2: ignore_upgrade,
    }
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)

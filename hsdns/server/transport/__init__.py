"""The parts that queries arrive through: sockets, listeners, who is admitted, UDP, TCP and TLS."""

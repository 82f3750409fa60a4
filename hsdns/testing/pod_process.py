"""The namespaces of a pod: a network with nothing but its DNS server's address, and /etc as in a pod.

Path: pod.py starts this file as a program, without the packages of hsdns -> the sockets of port 53 go back to pod.py.
Rule 1: it imports only the standard library, because every pod waits for its start.
Rule 2: the user does not change; nothing outside the namespaces is changed, and the namespaces end with the program,
        which ends with its input.

    python -I -S pod_process.py FOLDER ADDRESS < a Unix socket

FOLDER has the files to mount over files in /etc; ADDRESS is the IPv4 address of the DNS server.  The program sends back
"ready" with the UDP and the TCP socket, or an error as a sentence.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from typing import Final

# Linux: sched.h, sys/mount.h, linux/if.h, linux/sockios.h
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
SIOCSIFFLAGS: Final = 0x8914
SIOCSIFADDR: Final = 0x8916
IFF_UP: Final = 1
NAME_CACHES: Final = ("/run/nscd", "/var/run/nscd")  # which would be used instead of DNS
PORT: Final = 53


class Refused(Exception):
    """An operation that the kernel does not allow, as a sentence."""


def enter(folder: str, address: str) -> tuple[socket.socket, socket.socket]:
    """Enter new namespaces; return the UDP and the TCP socket of the DNS server; raise Refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    _own_namespaces(libc)
    _lay_files(libc, folder)
    _own_network(address)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((address, PORT))
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    tcp.bind((address, PORT))
    tcp.listen()
    return udp, tcp


def _own_namespaces(libc: ctypes.CDLL) -> None:
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS):
        raise Refused(f"the kernel refuses user namespaces ({os.strerror(ctypes.get_errno())})")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError as error:
            raise Refused(f"/proc/self/{name} cannot be written ({error.strerror})") from None


def _lay_files(libc: ctypes.CDLL, folder: str) -> None:
    _mount(libc, None, "/", None, MS_REC | MS_PRIVATE)
    for name in os.listdir(folder):
        target = f"/etc/{name}"
        if os.path.exists(target):
            _mount(libc, os.path.join(folder, name), target, None, MS_BIND)
        elif name == "resolv.conf":
            raise Refused("this machine has no /etc/resolv.conf that another could be laid over")
    for path in NAME_CACHES:
        if os.path.isdir(path):
            _mount(libc, "none", path, "tmpfs", 0)


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int
) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    if libc.mount(*words, ctypes.c_ulong(flags), None):
        raise Refused(f"{target} cannot be mounted ({os.strerror(ctypes.get_errno())})")


def _own_network(address: str) -> None:
    """Bring the loopback interface up, and give it the address as a second one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
        packed = socket.inet_aton(address)
        fcntl.ioctl(
            sock, SIOCSIFADDR, struct.pack("16sHH4s16x", b"lo:0", socket.AF_INET, 0, packed)
        )


def main() -> None:
    """Enter, send the sockets, and stay until the other end closes."""
    with socket.socket(fileno=sys.stdin.fileno()) as back:
        try:
            sockets = enter(*sys.argv[1:])
        except Refused as error:
            back.sendall(str(error).encode())
            return
        except OSError as error:
            back.sendall(f"a separate network namespace cannot be set up ({error})".encode())
            return
        socket.send_fds(back, [b"ready"], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        back.recv(1)


if __name__ == "__main__":
    main()

"""Lookups of a Python program with socket, aiodns, dnspython, PyMongo, grpc, or .NET's System.Net.Dns.

Path: scene.py -> here, as a program: HOW KIND NAME TIMES SECONDS.
"""

import asyncio
import importlib
import re
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

how, kind, name, times, pause = sys.argv[1:]
if how == "dotnet":
    folder = Path(str(importlib.import_module("dnv.net").__file__)).parent / "runtime" / ".net"
    runtime = importlib.import_module("clr_loader").get_coreclr(
        runtime_config=str(Path(__file__).with_name("dotnet.json")), dotnet_root=str(folder)
    )
    importlib.import_module("pythonnet").set_runtime(runtime)
    importlib.import_module("clr").AddReference("System.Net.NameResolution")
MODULES = {
    "dotnet": "System.Net",
    "dnspython": "dns.resolver",
    "pymongo": "pymongo.synchronous.srv_resolver",
}
library: Any = importlib.import_module(MODULES.get(how, how))


def with_socket() -> list[str]:
    """What the C library finds."""
    if kind == "ptr":
        return [socket.gethostbyaddr(name)[0]]
    return [str(each[4][0]) for each in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)]


def with_dnspython() -> list[str]:
    """What dns.resolver finds, with the search list as resolve_name() uses it."""
    if kind == "host":
        return list(library.resolve_name(name).addresses())
    if kind == "ptr":
        return [str(each.target) for each in library.resolve_address(name)]
    found = library.resolve(name, kind, search=True)
    return [each.to_text().replace(" ", "_") for each in found]


def with_pymongo() -> list[str]:
    """What mongodb+srv://HOST finds: the SRV records of _SERVICE._tcp.HOST, then the TXT record of HOST."""
    service, host = "mongodb", name
    if kind == "srv":
        service, _, host = name.removeprefix("_").split(".", 2)
    resolver = library._SrvResolver(host, None, service, srv_allowed_hosts_suffix="example.com")
    try:
        if kind == "srv":
            return [f"{target}:{port}" for target, port in resolver.get_hosts()]
        options = resolver.get_options()
    except Exception as error:
        raise OSError(type(error.__cause__).__name__ if error.__cause__ else str(error)) from error
    if options is None:
        raise OSError("no TXT record")
    return [options.replace(" ", "_")]


def with_dotnet() -> list[str]:
    """What System.Net.Dns finds."""
    if kind == "ptr":
        return [str(library.Dns.GetHostEntry(library.IPAddress.Parse(name)).HostName)]
    return [str(each.ToString()) for each in library.Dns.GetHostAddresses(name)]


def with_grpc(channels: dict[str, Any]) -> list[str]:
    """Whom a channel tries to connect to."""
    if not channels:
        channels[name] = library.insecure_channel(f"dns:///{name}:50051")
    text = ""
    try:
        channels[name].unary_unary("/a.B/c")(b"", timeout=60)
    except library.RpcError as error:
        text = error.details()
    found = re.findall(r"ipv[46]:(\S+):50051", text)
    if not found:
        raise OSError(text.rpartition(": ")[2].strip("]"))
    return list(dict.fromkeys(unquote(each).strip("[]") for each in found))


async def with_aiodns(resolver: Any) -> list[str]:
    """What c-ares finds."""
    if kind == "host":
        found = await resolver.getaddrinfo(name, socket.AF_UNSPEC)
        return [each.addr[0].decode() for each in found.nodes]
    if kind == "ptr":
        return [(await resolver.gethostbyaddr(name)).name]
    found = await resolver.query_dns(name, kind.upper())
    if kind == "srv":
        return [f"{each.data.target}:{each.data.port}" for each in found.answer]
    return [each.data.data.decode().replace(" ", "_") for each in found.answer]


async def main() -> None:
    """Look it up, as often as it is said."""
    resolver = library.DNSResolver() if how == "aiodns" else None
    channels: dict[str, Any] = {}
    for number in range(int(times)):
        await asyncio.sleep(float(pause) if number else 0)
        print("begin", flush=True)
        sys.stdin.readline()
        try:
            if how == "aiodns":
                found = await with_aiodns(resolver)
            elif how == "grpc":
                found = with_grpc(channels)
            else:
                own = {
                    "socket": with_socket,
                    "dnspython": with_dnspython,
                    "pymongo": with_pymongo,
                    "dotnet": with_dotnet,
                }
                found = own[how]()
            print("ok", *found, flush=True)
        except Exception as error:
            text = error.args[1] if len(error.args) > 1 else str(error)
            text = type(error).__name__ if how == "dnspython" else getattr(error, "Message", text)
            print("error", " ".join(text.split()), flush=True)


asyncio.run(main())

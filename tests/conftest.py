"""What holds for every test."""

import asyncio
import gc
import inspect
import logging
import os
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from hsdns.sources.manifest_folder import standard_input
from tests.fastpath.twins import BOTH
from tests.support.coroutines import event_loops
from tests.support.effort import tries
from tests.support.tiers import (  # noqa: F401 - hooks
    pytest_collection_modifyitems,
    pytest_ignore_collect,
    pytest_runtest_logreport,
    pytest_runtest_makereport,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

# No test fails because the machine is busy: an example may take any time, and so may making one.
# The same examples each time in CI, so that a red run can be seen again; new ones each time at a desk.
UNHURRIED = settings(
    deadline=None, max_examples=tries(50), suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("desk", UNHURRIED)
settings.register_profile("ci", UNHURRIED, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


# What must hold for each of some 20,000 tests costs little: a hook, or a fixture of the session, and no fixture of each test.


@pytest.fixture(autouse=True, scope="session")
def _outside_of_clusters() -> Iterator[None]:
    """Run as on a desk without a cluster, also where the tests themselves run in a pod, or by somebody who has one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            patch.delenv(name, raising=False)
        patch.setenv("KUBECONFIG", "/no/kubeconfig")
        for module in ("explanation", "resolver"):  # as on the terminals that pages show
            patch.setattr(f"hsdns.{module}.cli.columns", lambda: 80)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected away from the garbage collector, which would look at all of it in the middle of tests.

    Some tests call gc.collect(), where that costs as much as everything else that they do.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Keep the log as it was: a command that a test runs sets up that of its process, which the next test has as well."""
    logger = logging.getLogger("hsdns")
    before = logger.handlers, logger.level, logger.propagate
    try:
        return (yield)
    finally:
        logger.handlers, logger.level, logger.propagate = before


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine; on the event loop that its argument or fixture `loop` names, else on the server's."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    case = pyfuncitem.obj(**given)
    loop = pyfuncitem.funcargs.get("loop")
    event_loops.run(case, loop if isinstance(loop, str) else "uvloop")
    return True


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins of the fast path: its module."""
    return import_module(request.param)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """A kind of UDP listener, which the servers of the test use; tests ask for it with `each_kind`."""
    from tests.support.servers.udp_listeners import serving_with  # noqa: PLC0415 - it imports the server

    with serving_with(request.param):
        yield request.param


@pytest.fixture(autouse=True, scope="session")
def _folder_of_control_sockets() -> Iterator[Path]:
    """A folder of this session alone: no test finds a server that the user runs; its path is short enough for sockets."""
    before = os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="hsdns-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        yield Path(folder)
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before


@pytest.fixture(autouse=True, scope="session")
def resolv_conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Search domains and options of this machine decide nothing."""
    path = tmp_path_factory.mktemp("machine") / "resolv.conf"
    path.write_text("nameserver 127.0.0.1\n")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("hsdns.explanation.cli", "hsdns.plugins.kubernetes"):
            patch.setattr(f"{module}.RESOLV_CONF", str(path))
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def unread() -> Iterator[None]:
    """A standard input of its own."""
    standard_input.cache_clear()
    yield
    standard_input.cache_clear()


@pytest.fixture(params=sorted(event_loops.LOOPS))
def both_loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play the test on both event loops, whose transports are not alike."""
    monkeypatch.setattr(asyncio, "run", partial(event_loops.run, loop=request.param))


@pytest.fixture(scope="module")
def quiet_clusters() -> Iterator[None]:
    """What is wrong with drawn objects is said elsewhere (test_pack.py); here it would be megabytes."""
    log = logging.getLogger("hsdns.plugin.kubernetes")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scenarios.dig import Question
from tests.support.scenarios.peer import prepare_corefile
from tests.support.scenarios.scenario import Advance, Event, Packet, ScenarioError, parse

GOOD = """\
# A title

Prose.

needs: unsynced, every address

```corefile
. {
    kubernetes cluster.local
}
```

```yaml
kind: Namespace
metadata: {name: a}
---
include: more.yaml
```

```dig
dig a. A
;; NXDOMAIN qr rd
```

```event
kind: Service
metadata: {name: b}
delete: true
```

```event
synced: true
```

```advance
5s
```

```packet
> 00 01   # why
  02
< silence
differs: a reason
```
"""


def test_a_scenario_is_read_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("kind: Service\nmetadata: {name: b}\n")
    path = tmp_path / "good.md"
    path.write_text(GOOD)
    found = parse(path)
    assert (found.title, found.needs) == (
        "A title",
        frozenset({"unsynced", "every address"}),
    )
    assert [item["metadata"]["name"] for item in found.objects] == ["a", "b"]
    asked, deleted, synced, advance, packet = found.steps
    assert isinstance(asked, Question)
    assert (asked.line, asked.expected.rcode) == (21, "NXDOMAIN")
    service = {"kind": "Service", "metadata": {"name": "b", "namespace": "default"}}
    assert deleted == Event(26, (("delete", service),))
    assert synced == Event(32, (), synced=True)
    assert advance == Advance(36, 5.0)
    assert packet == Packet(42, b"\0\1\2", None, "a reason")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param("# A title", "A title", ":1: a scenario begins", id="title"),
        pytest.param("needs: unsynced", "needs: luck", "needs: takes", id="needs"),
        pytest.param("```advance", "```wait", "a fence is one of", id="fence"),
        pytest.param("```corefile", "```text", "a fence is one of", id="no corefile"),
        pytest.param("dig a. A", "dig a.", ":21: expected `dig NAME", id="dig"),
        pytest.param("kind: Namespace", "type: Namespace", "without kind", id="kind"),
        pytest.param("< silence", "> 00", "expected `> HEX`", id="packet"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    (tmp_path / "more.yaml").write_text("")
    path = tmp_path / "bad.md"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ScenarioError, match=sentence):
        parse(path)


def test_a_corefile_is_given_what_a_run_needs() -> None:
    text = """\
. {
    kubernetes cluster.local
    kubernetes other.local {
        ttl 5
    }
    health {
        lameduck 5s
    }
    forward . 127.0.0.1:UPSTREAM_PORT
}
example.org:UPSTREAM_PORT {
    whoami
}
"""
    http = {"ready": "127.0.0.1:1", "health": "127.0.0.1:2"}
    prepared = prepare_corefile(
        text, kubernetes="endpoint URL", http=http, bind="127.0.0.1", upstream_port=3
    )
    assert (
        prepared
        == """\
. {
    bind 127.0.0.1
    ready 127.0.0.1:1
    kubernetes cluster.local {
        endpoint URL
    }
    kubernetes other.local {
        endpoint URL
        ttl 5
    }
    health 127.0.0.1:2 {
        lameduck 5s
    }
    forward . 127.0.0.1:3
}
example.org:3 {
    bind 127.0.0.1
    whoami
}
"""
    )

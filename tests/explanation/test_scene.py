"""What an answer depends on, and asking again."""

from __future__ import annotations

from functools import partial

from hsdns.explanation.scene import Change, Scene, made, smallest
from tests.support.cluster.explained import explained, go_on
from tests.support.cluster.objects import namespace, service
from tests.support.coroutines.eager import turns

# The smallest set of changes.


FOUND = explained("web.shop.svc.cluster.local.")
NOTHING = Change("", "nothing", "", lambda scene: scene)


def adding(*objects: object) -> Change:
    return Change("", "", "", partial(Scene.with_objects, *()) if not objects else lambda scene: scene.with_objects(*objects))  # type: ignore[arg-type]  # fmt: skip


def test_a_set_that_suffices() -> None:
    place, web = adding(namespace("shop")), adding(service("shop/web", "10.96.0.1"))

    def ask(candidates: list[Change]) -> tuple[Change, ...]:
        found = FOUND
        return turns(
            smallest(found.replay, found.scene, candidates, found.qname, found.qtype, go_on)
        )[0]

    assert ask(candidates=[NOTHING, place, web]) == (place, web)
    both = adding(namespace("shop"), service("shop/web", "10.96.0.1"))
    assert ask(candidates=[NOTHING, place, web, both]) == (both,)
    assert ask(candidates=[NOTHING, place]) == ()
    assert len(made(FOUND.scene, [place, web]).objects) == 2

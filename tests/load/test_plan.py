from hsdns.load.plan import Plan, read_plan, write_plan
from hsdns.load.schedule import POISSON, Schedule, Stage


def test_as_it_was_written() -> None:
    plan = Plan(
        2, ("127.0.0.1", 53), [b"\0\1"], [0.5], 7, [(1.0, 2.0, 3.0)], POISSON, 1, 10**9, 4, True
    )
    assert read_plan(write_plan(plan)) == plan
    assert plan.schedule == Schedule((Stage(1.0, 2.0, 3.0),), POISSON, 1, 7)

from loadtest.answering.programs import NATIVE, Program
from loadtest.pressure.hostile_yaml import Reading
from loadtest.pressure.rows import BY_KEY
from loadtest.pressure.run import outcome_of_files

PROGRAM = Program(NATIVE, (), "1")
MB = 1_000_000


def test_the_worst_file_counts() -> None:
    readings = [Reading("a", 0.5, 80 * MB), Reading("b", 1.5, 20 * MB)]
    outcome = outcome_of_files(BY_KEY["yaml"], PROGRAM, readings)
    figures = ("answered", "CPU, s", "peak RSS, MB")
    assert [outcome.figure(name) for name in figures] == [1.0, 1.5, 80.0]


def test_a_file_that_ends_the_process_is_a_fault() -> None:
    readings = [Reading("a", 0.5, 80 * MB), Reading("b", ended="b: MemoryError")]
    outcome = outcome_of_files(BY_KEY["yaml"], PROGRAM, readings)
    assert outcome.ended == "b: MemoryError"
    assert outcome.figure("answered") is None

"""Which decision runs when, against the slow and obvious version of the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayzero.watching.course import Course
from delayzero.watching.moments import Sent

from ..delays.simulator import Simulator

RULES = ("latest-generated", "fixed", "lag-index", "latest-arrival")


@st.composite
def courses(draw, rule):
    longest = draw(st.integers(0, 4))
    low = longest if rule == "fixed" else 0
    delays = draw(st.lists(st.integers(low, longest), min_size=1, max_size=14))
    return Course(rule, range(100, 100 + longest), range(len(delays)), delays)


def given_up(course, time, ran):
    """The decisions that by definition cannot run after a time, and have not run."""

    def lost(one):
        lands = one + course.delays[one]
        later = [(other, other + course.delays[other]) for other in range(one + 1, time + 1)]
        match course.rule:
            case "latest-generated":  # a newer one arrives no later
                return any(landing <= lands for _, landing in later)
            case "latest-arrival":  # a newer one arrives at the same time
                return any(landing == lands for _, landing in later)
            case "lag-index":
                return one <= time - course.longest
        return False

    return {one for one in range(time + 1) if one not in ran[: time + 1] and lost(one)}


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_against_packets(rule, data):
    course = data.draw(courses(rule))
    simulator = Simulator(rule, course.longest)
    dropped, gone = course.dropped(), set()
    for time, delay in enumerate(course.delays):
        pending = [sent.time for sent in course.lane(time)]
        before = simulator.pending(delay)
        simulator.push(delay)
        assert pending == [*before, time], "what was pending, then the decision itself"
        gone |= {sent.time for sent in dropped[time]}
        assert gone == given_up(course, time, simulator.ran)
    assert [sent.time for sent in course.ran()] == simulator.ran
    assert sum(course.repeated()) == simulator.repeated
    never = [time for time, met in enumerate(course.met()) if met is None]
    assert never == simulator.never_ran
    for time, met in enumerate(course.met()):
        assert met is None or simulator.ran.index(time) == met
    assert sum(map(len, dropped)) == len({sent for part in dropped for sent in part})


def test_by_hand():
    """Decided at 1 with a delay of 3, overtaken at 2 by one that takes a step."""
    course = Course("latest-generated", [7, 8, 9], [0, 1, 2, 3], [1, 3, 1, 2])
    assert course.lane(0) == (Sent(-3, 7), Sent(0, 0))
    assert course.lane(1) == (Sent(0, 0), Sent(0, 0), Sent(0, 0), Sent(1, 1))
    assert course.dropped() == [(), (), (Sent(1, 1),), ()]
    assert [sent.time for sent in course.ran()] == [-3, 0, 0, 2]
    assert course.repeated() == [False, False, True, False]
    assert course.met() == [1, None, 3, None]

import math
import operator
import string

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayzero.delays import (
    MM1,
    Callback,
    Categorical,
    Constant,
    DelayedExecution,
    DelayError,
    DelayStream,
    Exponential,
    Gamma,
    GilbertElliott,
    HyperExponential,
    InSteps,
    Jitter,
    LogNormal,
    MarkovChain,
    Outage,
    PerEpisode,
    Sum,
    Trace,
    Uniform,
    Walk,
    parse,
)
from delayzero.delays.channel import resolve_law
from delayzero.delays.settings import LATENCY_SETTINGS
from delayzero.delays.text import LAWS

from .examples import ALL, LATENCIES

# Laws at random.

WHOLE = st.integers(0, 40)
PROBABILITY = st.floats(0, 1)
LENGTH = st.floats(0, 1e6)
POSITIVE = st.floats(1e-3, 1e9)


@st.composite
def distributions(draw, size):
    weights = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any))
    return tuple(weight / sum(weights) for weight in weights)


@st.composite
def uniforms(draw):
    return Uniform(*sorted(draw(st.tuples(WHOLE, WHOLE))))


@st.composite
def categoricals(draw):
    delays = draw(st.lists(WHOLE, min_size=1, max_size=5, unique=True))
    return Categorical(tuple(delays), draw(distributions(len(delays))))


@st.composite
def walks(draw):
    limit, up = draw(WHOLE), draw(st.floats(0, 0.5))
    start = draw(st.none() | st.integers(0, limit))
    return Walk(limit, up, draw(st.floats(0, 0.5)), draw(st.integers(1, 5)), start)


@st.composite
def chains(draw):
    delays = draw(st.lists(WHOLE, min_size=1, max_size=4, unique=True))
    matrix = tuple(draw(distributions(len(delays))) for _ in delays)
    return MarkovChain(tuple(delays), matrix, draw(st.none() | st.sampled_from(delays)))


@st.composite
def channels(draw):
    losses = draw(st.sampled_from([(0.0, 0.0, None), (0.0, 0.5, 7), (0.25, 1e-7, 0)]))
    return GilbertElliott(draw(WHOLE), draw(WHOLE), draw(PROBABILITY), draw(PROBABILITY), *losses)


@st.composite
def hyperexponentials(draw):
    means = draw(st.lists(LENGTH, min_size=1, max_size=4))
    return HyperExponential(draw(distributions(len(means))), tuple(means), draw(LENGTH))


CALLBACKS = st.builds(
    Callback,
    st.sampled_from([math.floor, operator.index, np.linalg.norm]),
    WHOLE,
    st.sampled_from(["observation", "decision"]),
)
STEP_LAWS = st.one_of(
    st.builds(Constant, WHOLE), uniforms(), categoricals(), walks(), chains(), channels()
)
LATENCY_LAWS = st.one_of(
    st.builds(Exponential, LENGTH, LENGTH),
    st.builds(Gamma, LENGTH, LENGTH, LENGTH),
    st.builds(LogNormal, st.floats(-20, 20), LENGTH, LENGTH),
    hyperexponentials(),
    st.builds(Jitter, LENGTH, LENGTH, PROBABILITY, LENGTH),
    st.builds(MM1, LENGTH, st.floats(0.01, 0.99)),
    st.builds(Outage, st.floats(1, 1e9), LENGTH),
    st.sampled_from([setting.latency for setting in LATENCY_SETTINGS.values()]),
)


def with_per_episode(laws):
    return laws | st.builds(PerEpisode, laws.filter(lambda law: not law.remembers))


def sums(laws):
    def agree(parts):
        return not any(part.restarts for part in parts) or all(
            part.restarts or not part.remembers for part in parts
        )

    lists = st.lists(laws, min_size=2, max_size=4).filter(agree)
    return lists.map(lambda parts: Sum(tuple(parts)))


LATENCY_TERMS = with_per_episode(LATENCY_LAWS)
IN_STEPS = st.builds(
    InSteps,
    LATENCY_TERMS | sums(LATENCY_TERMS),
    POSITIVE | st.sampled_from([10.0, 20.0]),
    st.none() | WHOLE,
)
NAMED = st.sampled_from(["wifi", "4g", "5g", "starlink", "geo", "4g@10ms", "geo@7.5ms"]).map(parse)
TERMS = with_per_episode(STEP_LAWS) | IN_STEPS | CALLBACKS | NAMED


@given(law=TERMS)
@settings(max_examples=500)
def test_text_of_a_law_is_read_back_as_the_same_law(law):
    assert parse(str(law)) == law


@given(law=sums(TERMS))
@settings(max_examples=500)
def test_text_of_a_sum_is_read_back_as_the_same_sum(law):
    assert parse(str(law)) == law
    assert str(parse(str(law))) == str(law)


@pytest.mark.parametrize("name", ALL)
def test_text_of_every_example_is_read_back(name, traces):
    law = ALL[name](traces)
    assert parse(str(law)) == law


@pytest.mark.parametrize("name", LATENCIES)
def test_text_of_every_latency_is_read_back(name, traces):
    law = InSteps(LATENCIES[name](traces), 12.5)
    assert parse(str(law)) == law


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("constant:5", Constant(5)),
        ("uniform:0-5", Uniform(0, 5)),
        ("categorical:1=0.3,2=0.7", Categorical((1, 2), (0.3, 0.7))),
        ("walk:15", Walk(15, 0.2, 0.2, 1, None)),
        ("walk:15,up=0.3,start=2", Walk(15, up=0.3, start=2)),
        ("markov:0-0=0.9,0-4=0.1,4-0=1,4-4=0", MarkovChain((0, 4), ((0.9, 0.1), (1.0, 0.0)))),
        ("gilbert-elliott:good=1,bad=23,p=0.02,r=0.1", GilbertElliott(1, 23, 0.02, 0.1)),
        ("per-episode:uniform:0-4", PerEpisode(Uniform(0, 4))),
        ("exponential:mean=10,shift=15@20ms,max=5", InSteps(Exponential(10.0, 15.0), 20.0, 5)),
        ("outage:every=8500,longest=3000@20ms", InSteps(Outage(8500.0, 3000.0), 20.0)),
        ("constant:1+walk:4", Sum((Constant(1), Walk(4)))),
        ("callback:math.floor,max=5", Callback(math.floor, 5)),
        ("callback:math.floor,max=5,sees=decision", Callback(math.floor, 5, "decision")),
        (
            "exponential:mean=5+outage:every=85,longest=30@20ms,max=40+constant:1",
            Sum((InSteps(Sum((Exponential(5.0), Outage(85.0, 30.0))), 20.0, 40), Constant(1))),
        ),
    ],
)
def test_canonical_texts(text, law):
    assert parse(text) == law
    assert str(law) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" walk:4 ", "walk:4"),
        ("constant:1 + walk:4", "constant:1+walk:4"),
        ("walk:limit=4", "walk:4"),
        ("walk:4,up=0.2", "walk:4"),
        ("markov:4-4=1,4-0=0,0-4=1", "markov:4-4=1,0-4=1,0-0=0"),
        ("4g@20ms", "4g"),
        ("exponential:mean=1e+2@2e+1ms,max=5", "exponential:mean=100@20ms,max=5"),
    ],
)
def test_other_ways_to_write_a_law(text, canonical):
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("name", [name for name in LAWS if name not in ("trace", "callback")])
def test_example_shown_in_errors_is_valid(name):
    assert parse(LAWS[name].example).max_delay >= 0


# Named settings.


def test_wifi_is_the_published_histogram():
    law = parse("wifi")
    assert law.delays == (1, 2, 3, 4, 5, 6)
    assert law.probabilities == (0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056)
    assert str(law) == "wifi"


@pytest.mark.parametrize(
    ("text", "latency", "period", "limit"),
    [
        ("4g", HyperExponential((0.8, 0.2), (10.0, 150.0), 15.0), 20, 25),
        ("4g@10ms", HyperExponential((0.8, 0.2), (10.0, 150.0), 15.0), 10, 50),
        ("4g@10ms,max=7", HyperExponential((0.8, 0.2), (10.0, 150.0), 15.0), 10, 7),
        ("5g", HyperExponential((0.8, 0.2), (5.0, 50.0), 7.5), 20, 10),
        ("geo@30ms", Jitter(600.0, 30.0), 30, 24),
    ],
)
def test_named_latencies(text, latency, period, limit):
    assert parse(text) == InSteps(latency, period, limit)
    assert str(parse(text)) == text


def test_named_settings_can_be_parts_of_other_laws():
    assert parse("wifi+4g") == Sum((parse("wifi"), parse("4g")))
    assert parse("per-episode:wifi") == PerEpisode(parse("wifi"))
    assert parse("exponential:mean=5+4g@10ms,max=50") == InSteps(
        Sum((Exponential(5.0), parse("4g").latency)), 10.0, 50
    )


def test_order_of_latencies_does_not_matter():
    # One period turns all of them together into steps, a named one at the beginning too.
    assert parse("4g+exponential:mean=5@10ms,max=60") == InSteps(
        Sum((parse("4g").latency, Exponential(5.0))), 10.0, 60
    )


# Paths of traces.


@pytest.mark.parametrize(
    "name",
    [
        "plain.csv",
        "a+b.csv",
        "a,b.csv",
        "a,mode=offset.csv",
        "rtt@home@20ms.csv",
        "100%.csv",
        "%2B.csv",
        "with some spaces.csv",
        " leading.csv",
        "trailing.csv ",
        "a:b=c;d#e?f.csv",
        "'quoted\".csv",
        "1e+5.csv",
        "grün-日本.csv",
        "new\nline.csv",
    ],
)
@pytest.mark.parametrize("mode", ["loop", "offset", "episode"])
def test_paths_with_odd_characters(tmp_path, name, mode):
    (tmp_path / name).write_text("delay_steps\n3\n1\n")
    law = Trace(str(tmp_path / name), mode)
    assert parse(str(law)) == law
    assert parse(f"{law}+constant:1") == Sum((law, Constant(1)))


@given(name=st.text(string.printable.replace("/", ""), min_size=1, max_size=12), ms=st.booleans())
def test_any_path_is_read_back(tmp_path_factory, name, ms):
    folder = tmp_path_factory.mktemp("paths")
    path = folder / f"{name}.csv"
    path.write_text("delay_ms\n3\n" if ms else "delay_steps\n3\n")
    law = Trace(str(path), "offset")
    law = InSteps(law, 20.0, 7) if ms else law
    assert parse(str(law)) == law


def test_plain_path_is_written_as_it_is(tmp_path):
    path = tmp_path / "dir_1" / "my-trace.v2.csv"
    path.parent.mkdir()
    path.write_text("delay_steps\n3\n")
    assert str(Trace(str(path))) == f"trace:{path}"


# Wrong texts: the error names the wrong part and a valid form.

WALK, UNIFORM = "'walk:15,up=0.2,down=0.2,step=1,start=15'", "'uniform:0-5'"
CATEGORICAL, MARKOV = "'categorical:1=0.3,2=0.7'", "'markov:0-0=0.9,"
CHANNEL, CALLBACK = "'gilbert-elliott:good=1,", "'callback:package.module.function,max=5'"
PERIOD = "@20ms"

WRONG = [
    # No law at all.
    ("", ["empty", "constant:1+walk:4"]),
    ("   ", ["empty", "constant:1+walk:4"]),
    ("wlak:4", ["'wlak'", "did you mean 'walk'"]),
    ("Walk:4", ["'Walk'", "did you mean 'walk'"]),
    ("zzz", ["'zzz'", "choose from constant, uniform,"]),
    ("15", ["'15' is a number", "'constant:15'"]),
    (":5", ["''", "choose from constant, uniform,"]),
    ("constant:1+wlak:4", ["'wlak'", "did you mean 'walk'"]),
    # Sums.
    ("constant:1+", ["empty", "constant:1+walk:4"]),
    ("+walk:4", ["empty", "constant:1+walk:4"]),
    ("constant:1++walk:4", ["empty", "constant:1+walk:4"]),
    ("per-episode:uniform:0-4+walk:4", ["'walk:4' continues across episodes", "restarts"]),
    # Walks and constants.
    ("constant", ["needs delay", "'constant:5'"]),
    ("constant:-2", ["-2", "at least 0", "'constant:5'"]),
    ("constant:1.5", ["'1.5'", "whole number", "'constant:5'"]),
    ("constant:1,2", ["'2'", "name=value", "'constant:5'"]),
    ("walk", ["needs limit", WALK]),
    ("walk:x", ["'x'", "whole number", WALK]),
    ("walk:-1", ["-1", "at least 0", WALK]),
    ("walk:4.5", ["'4.5'", "whole number", WALK]),
    ("walk:4,", ["''", "name=value", WALK]),
    ("walk:4,5", ["'5'", "name=value", WALK]),
    ("walk:4,upp=0.1", ["'upp'", "did you mean 'up'", WALK]),
    ("walk:4,up=", ["up", "''", WALK]),
    ("walk:4,up=nan", ["up", "'nan'", "finite", WALK]),
    ("walk:4,up=2", ["up", "between 0 and 1", "2", WALK]),
    ("walk:4,up=0.6,down=0.6", ["up + down", "1.2", WALK]),
    ("walk:4,up=0.1,up=0.2", ["'up'", "twice", WALK]),
    ("walk:4,step=0", ["step", "at least 1", WALK]),
    ("walk:4,start=5", ["start", "between 0 and 4", WALK]),
    # Independent delays.
    ("uniform", ["LOW-HIGH", UNIFORM]),
    ("uniform:5", ["'5'", "LOW-HIGH", UNIFORM]),
    ("uniform:5-2", ["5-2", "empty", UNIFORM]),
    ("uniform:a-2", ["'a'", "smallest", UNIFORM]),
    ("uniform:0-2-3", ["'2-3'", "largest", UNIFORM]),
    ("uniform:-1-2", ["smallest", UNIFORM]),
    ("categorical", ["DELAY=PROBABILITY", CATEGORICAL]),
    ("categorical:1", ["'1'", "DELAY=PROBABILITY", CATEGORICAL]),
    ("categorical:1=0.5", ["sum to 0.5", CATEGORICAL]),
    ("categorical:1=0.5,1=0.5", ["twice", CATEGORICAL]),
    ("categorical:1=x", ["probability of 1", "'x'", CATEGORICAL]),
    ("categorical:1.5=1", ["'1.5'", "whole number", CATEGORICAL]),
    ("categorical:1=1.5,2=-0.5", ["between 0 and 1", "1.5", CATEGORICAL]),
    ("categorical:-1=1", ["-1", "at least 0", CATEGORICAL]),
    # Markov chains and channels.
    ("markov:", ["FROM-TO=PROBABILITY", MARKOV]),
    ("markov:0-0", ["'0-0'", "FROM-TO=PROBABILITY", MARKOV]),
    ("markov:0-1=1", ["delay 1", "no transitions", MARKOV]),
    ("markov:0-0=0.5", ["from delay 0", "sum to 0.5", MARKOV]),
    ("markov:0-0=1,0-0=1", ["'0-0'", "twice", MARKOV]),
    ("markov:0-0=1,start=3", ["start=3", MARKOV]),
    ("markov:0-0=1,start=0,start=0", ["start", "twice", MARKOV]),
    ("markov:a-0=1", ["'a'", "whole number", MARKOV]),
    ("gilbert-elliott", ["needs good and bad and p and r", CHANNEL]),
    ("gilbert-elliott:good=1,bad=2,p=0.1", ["needs r", CHANNEL]),
    ("gilbert-elliott:good=1,bad=2,p=1.1,r=0.1", ["p ", "between 0 and 1", CHANNEL]),
    ("gilbert-elliott:good=1,bad=2,p=0.1,r=0.1,loss_bad=0.1", ["lost=STEPS", CHANNEL]),
    # Latencies.
    ("exponential:mean=5", ["'exponential:mean=5'", "'exponential:mean=5@20ms,max=10'"]),
    ("exponential:mean=5+walk:4", ["'exponential:mean=5'", "milliseconds", PERIOD]),
    ("exponential:mean=5@20", ["'@20'", PERIOD]),
    ("exponential:mean=5@ms", ["''", PERIOD]),
    ("exponential:mean=5@xms", ["'x'", PERIOD]),
    ("exponential:mean=5@0ms", ["0", PERIOD]),
    ("exponential:mean=5@-5ms", ["-5", PERIOD]),
    ("exponential:mean=5@infms", ["'inf'", PERIOD]),
    ("exponential:mean=5@20ms,max=x", ["max", "'x'", "max=10"]),
    ("exponential:mean=5@20ms,max=2.5", ["max", "'2.5'", "max=10"]),
    ("exponential:mean=5@20ms,max=-1", ["max", "-1", "max=10"]),
    ("exponential:mean=5@20ms,min=3", ["min=3", "@20ms,max=10"]),
    ("exponential:mean=5,max=3@20ms", ["'max'", "exponential:mean=10,shift=15@20ms,max=5"]),
    ("exponential@20ms", ["needs mean", "'exponential:mean=10,"]),
    ("exponential:5@20ms", ["'5'", "name=value", "'exponential:mean=10,"]),
    ("exponential:mean=-5@20ms", ["mean", "-5", "'exponential:mean=10,"]),
    ("exponential:mean=1e400@20ms", ["mean", "'1e400'", "finite", "'exponential:mean=10,"]),
    ("gamma:shape=1,scale=-1@20ms", ["scale", "-1", "'gamma:"]),
    ("lognormal:mu=1,sigma=-1@20ms", ["sigma", "-1", "'lognormal:"]),
    ("hyperexponential:weights=0.5/0.4,means=1/2@20ms", ["sum to 0.9", "'hyperexponential:"]),
    ("hyperexponential:weights=1,means=1/2@20ms", ["1 weights for 2 means", "'hyperexp"]),
    ("hyperexponential:weights=0.5/x,means=1/2@20ms", ["weights", "'x'", "'hyperexp"]),
    ("jitter:mean=5,std=1,correlation=2@20ms", ["correlation", "between 0 and 1", "'jitter:"]),
    ("mm1:service=5,load=1@20ms", ["load", "1", "'mm1:service=5,load=0.8"]),
    ("mm1:service=5@20ms", ["needs load", "'mm1:"]),
    ("outage:every=0,longest=3@20ms", ["every", "0", "'outage:"]),
    ("walk:4@20ms", ["'walk:4'", "in steps already", "'@20ms'"]),
    ("wifi@20ms", ["'wifi'", "in steps already", "'@20ms'"]),
    # Names.
    ("wifi:3", ["'wifi'", "takes no arguments", "type 'wifi'"]),
    ("4g:3", ["'4g'", "takes no arguments", "type '4g'"]),
    ("6g", ["'6g'", "did you mean"]),
    ("4g@", ["'@'", PERIOD]),
    ("4g@20", ["'@20'", PERIOD]),
    ("4g@0ms", ["0", PERIOD]),
    ("4g@-5ms", ["-5", PERIOD]),
    ("4g@1e-320ms", ["1e-320", PERIOD]),
    ("4g@20ms,max=x", ["max", "'x'", "max=10"]),
    ("outage:every=8500,longest=3e31@20ms", ["longest", "at most 1e+09", "3e+31"]),
    # Traces, callbacks and per-episode.
    ("trace", ["path of a file", "'trace:path/to/delays.csv"]),
    ("trace:no/such.csv", ["'no/such.csv'", "'trace:path/to/delays.csv"]),
    ("trace:no/such.csv,offset", ["'offset'", "mode=offset"]),
    ("trace:no/such.csv,mode=ofset", ["'ofset'", "did you mean 'offset'"]),
    ("callback", ["max=STEPS", CALLBACK]),
    ("callback:math.floor", ["max=STEPS", CALLBACK]),
    ("callback:math.nothing,max=3", ["'math.nothing'", "can't be imported", CALLBACK]),
    ("callback:no_module.f,max=3", ["'no_module.f'", "can't be imported", CALLBACK]),
    ("callback:f,max=3", ["'f'", "can't be imported", CALLBACK]),
    ("callback:math.pi,max=3", ["3.14", "function", CALLBACK]),
    ("callback:math.floor,max=x", ["max", "'x'", CALLBACK]),
    ("callback:math.floor,max=-1", ["-1", "at least 0", CALLBACK]),
    ("callback:math.floor,max=3,max=4", ["'max'", "twice", CALLBACK]),
    ("callback:math.floor,max=3,see=decision", ["'see'", "did you mean 'sees'", CALLBACK]),
    ("callback:math.floor,max=3,sees=all", ["'all'", "'observation' or 'decision'", CALLBACK]),
    ("per-episode", ["''", "'per-episode:uniform:0-4'"]),
    ("per-episode:wlak:3", ["'wlak'", "did you mean 'walk'", "'per-episode:uniform:0-4'"]),
    ("per-episode:uniform:5-2", ["5-2", "'uniform:0-5'"]),
    ("per-episode:callback:math.floor,max=2", ["independent delays", "'per-episode:uniform:0-4'"]),
]


@pytest.mark.parametrize(("text", "fragments"), WRONG, ids=[text for text, _ in WRONG])
def test_wrong_text_is_explained(text, fragments):
    with pytest.raises(DelayError) as caught:
        parse(text)
    message = str(caught.value)
    assert f"'{text}'" in message
    explanation = message.replace(f"delay law '{text}':", "", 1)
    for fragment in fragments:
        assert fragment in explanation


@pytest.mark.parametrize("value", [None, 5, ["walk:4"], b"walk:4"])
def test_only_texts_can_be_parsed(value):
    with pytest.raises(DelayError, match="a text such as 'walk:15'"):
        parse(value)


@given(text=st.text(string.ascii_lowercase + string.digits + ":,=@+-./ ", max_size=25))
@settings(max_examples=300)
def test_any_text_is_a_law_or_a_delay_error(text):
    try:
        law = parse(text)
    except DelayError:
        return
    assert parse(str(law)) == law


@given(
    text=st.sampled_from(
        ["walk:4,up=0.2", "uniform:0-5", "4g@10ms,max=3", "markov:0-0=1", "constant:1+wifi"]
    ),
    place=st.integers(0, 20),
    character=st.sampled_from(":,=@+-./ 0x"),
)
@settings(max_examples=300)
def test_any_slip_of_the_pen_gives_a_law_or_a_delay_error(text, place, character):
    try:
        law = parse(text[:place] + character + text[place + 1 :])
    except DelayError:
        return
    assert parse(str(law)) == law


# The same mistakes in Python.


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda: Constant(1.5), "whole number of steps, not 1.5"),
        (lambda: Constant(True), "whole number of steps, not True"),
        (lambda: Constant("5"), "whole number of steps, not '5'"),
        (lambda: Walk(3, step=1.0), "whole number of steps, not 1.0"),
        (lambda: Categorical((), ()), "one probability for each delay"),
        (lambda: Categorical((1, 2), (1.0,)), "one probability for each delay"),
        (lambda: Categorical((1, 2), (math.nan, 1.0)), "should be a finite number, not nan"),
        (lambda: MarkovChain((0, 1), ((1.0, 0.0),)), "1 rows for 2 delays"),
        (lambda: MarkovChain((0, 1), ((1.0,), (0.0, 1.0))), "the row of delay 0"),
        (lambda: GilbertElliott.from_moments(1, 2, 1.5, 0.5), "bad_fraction"),
        (lambda: GilbertElliott.from_moments(1, 2, 0.5, -0.5), "correlation"),
        (lambda: Exponential(math.nan), "mean should be a finite number, not nan"),
        (lambda: Exponential(math.inf), "mean"),
        (lambda: LogNormal(math.nan, 1.0), "mu"),
        (lambda: Outage(math.inf, 1.0), "every"),
        (lambda: InSteps(Walk(3), 20.0), "in steps already"),
        (lambda: InSteps(Exponential(5.0), 0.0), "step in milliseconds"),
        (lambda: InSteps(Exponential(5.0), math.inf), "step in milliseconds"),
        (lambda: Sum((Walk(3),)), "two laws or more"),
        (lambda: Sum(()), "two laws or more"),
        (lambda: Sum((Walk(3), Exponential(5.0))), "exponential:mean=5@20ms,max=3+constant:1"),
        (lambda: PerEpisode(Sum((Walk(3), Walk(2)))), "hold each part of a sum"),
        (lambda: PerEpisode(InSteps(Exponential(5.0), 20.0)), "before it is"),
        (
            lambda: PerEpisode(Callback(math.floor, 3)),
            "per-episode takes a law of independent delays",
        ),
        (lambda: Callback(3, 5), "should be a function, not 3"),
        (lambda: Callback(math.floor, 5, "all"), "'observation' or 'decision'"),
    ],
)
def test_wrong_argument_is_explained(make, fragment):
    with pytest.raises(DelayError) as caught:
        make()
    assert fragment in str(caught.value)


# Bounds.


@pytest.mark.parametrize("text", ["exponential:mean=5@20ms", "mm1:service=5,load=0.8@20ms"])
def test_latency_without_bound_needs_one(text):
    law = parse(text)
    with pytest.raises(DelayError, match="has no largest delay") as caught:
        DelayStream(law, 0)
    assert f"'{text},max=10'" in str(caught.value)
    assert "max_delay=10" in str(caught.value)


@pytest.mark.parametrize("latency", [Exponential(5.0), MM1(5.0, 0.5)], ids=str)
def test_latency_without_period_needs_one(latency):
    with pytest.raises(DelayError, match="is in milliseconds") as caught:
        DelayStream(latency, 0)
    assert f"'{latency}@20ms,max=10'" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "exponential:mean=5@20ms",
        "exponential:mean=5@20ms+walk:4",
        "walk:4+exponential:mean=5@20ms+exponential:mean=3@10ms",
        "per-episode:4g@20ms",
    ],
)
def test_valid_text_in_the_error_about_a_bound_is_valid(text):
    with pytest.raises(DelayError, match="has no largest delay") as caught:
        DelayStream(parse(text), 0)
    suggestion = str(caught.value).split("give one: '")[1].split("'")[0]
    assert parse(suggestion).max_delay >= 10


def test_max_delay_bounds_a_latency():
    assert parse("exponential:mean=5@20ms", 7).max_delay == 7
    assert resolve_law("exponential:mean=5@20ms", 7) == (InSteps(Exponential(5.0), 20.0, 7), 7)
    assert resolve_law(InSteps(Exponential(5.0), 20.0), 7)[0].max_delay == 7


def test_max_delay_leaves_a_bounded_law_as_it_is():
    assert resolve_law("4g", 40) == (parse("4g"), 40)
    assert resolve_law("walk:4", 9) == (Walk(4), 9)


@pytest.mark.parametrize("law", ["walk:5", Walk(5), "constant:2+uniform:0-3", "4g"])
def test_max_delay_too_small_for_the_law(law):
    with pytest.raises(DelayError, match="more than max_delay=4; allow "):
        resolve_law(law, 4)


@pytest.mark.parametrize("as_text", [True, False])
def test_max_delay_bounds_a_sum_with_a_latency(as_text):
    text = "constant:1+exponential:mean=5@20ms"
    law, max_delay = resolve_law(text if as_text else parse(text), 10)
    assert max_delay == 10
    assert law.max_delay <= 10


@pytest.mark.parametrize("max_delay", [-1, 2.5, "4"])
def test_max_delay_is_a_whole_number_of_steps(max_delay):
    with pytest.raises(DelayError, match="max_delay"):
        resolve_law("constant:0", max_delay)


@pytest.mark.parametrize(
    "law", ["wlak:4", "exponential:mean=5@20ms", "per-episode:uniform:0-4+walk:4"]
)
def test_wrong_law_is_found_when_the_environment_is_made(law):
    env = gym.make("CartPole-v1")
    with pytest.raises(DelayError):
        DelayedExecution(env, law)

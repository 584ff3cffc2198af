import subprocess
import sys
import threading

import pytest

import delayzero
from delayzero import cli, extras
from delayzero.arguments import Parser, UsageError, positive, whole
from delayzero.cli import main
from delayzero.delays import responder
from delayzero.delays.cli import _recorded
from delayzero.delays.network import Recording, Sample, write_trace
from delayzero.delays.responder import open_responder, serve


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def fails(capsys, *words):
    """Run a command that should fail, and return its one line of error."""
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("delayzero: error: ")
    return lines[0].removeprefix("delayzero: error: ")


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"delayzero {delayzero.__version__}\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_names_every_command(words, capsys):
    assert main(words) == 0
    shown = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert f"  {name}" in shown
        assert command.help in shown


def test_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "delayzero", "delays", "show", "wlak:5"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "did you mean 'walk'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_nearest_command_is_named(capsys):
    assert "did you mean 'delays'?" in fails(capsys, "delay")
    assert "did you mean 'show'?" in fails(capsys, "delays", "shwo")
    assert fails(capsys, "delays", "xyzzy").startswith("unknown command 'delays xyzzy'; choose")
    unknown = fails(capsys, "xyzzy")
    assert unknown.startswith("unknown command 'xyzzy'; choose from train, ")
    assert unknown.endswith("compare, campaign, results, report, delays, theory, demo")
    assert fails(capsys, "--verbose") == "unknown option '--verbose'; type: delayzero --help"


def test_show_prints_statistics_and_writes_nothing(tmp_path, capsys):
    assert main(["delays", "show", "constant:3"]) == 0
    shown = capsys.readouterr().out
    lines = {line[2:].partition("  ")[0]: line.split() for line in shown.splitlines()[2:11]}
    assert shown.startswith("constant:3, rule latest-generated, M = 3\n")
    assert lines["mean delay"][2] == "3.00"
    assert lines["autocorrelation"][1:] == ["-", "the", "delay", "never", "changes"]
    assert lines["effective lag"][2] == "3.00"
    assert "--save constant-3.png" in shown
    assert not list(tmp_path.iterdir())


def test_show_takes_its_options(tmp_path, capsys):
    options = ["--rule", "fixed", "--max-delay", "4", "--seed", "2", "--save", "my.png"]
    assert main(["delays", "show", "exponential:mean=30@20ms", *options]) == 0
    shown = capsys.readouterr().out
    assert "rule fixed, M = 4" in shown
    assert shown.endswith("picture: my.png\n")
    assert (tmp_path / "my.png").read_bytes().startswith(b"\x89PNG")


def test_show_without_matplotlib_still_prints_the_figures(monkeypatch, tmp_path, capsys):
    original = extras.importlib.import_module

    def without_matplotlib(name, *rest):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name="matplotlib")
        return original(name, *rest)

    monkeypatch.setattr(extras.importlib, "import_module", without_matplotlib)
    assert main(["delays", "show", "constant:3"]) == 0
    assert "effective lag" in capsys.readouterr().out
    assert main(["delays", "show", "constant:3", "--save", "my.png"]) == 2
    shown = capsys.readouterr()
    assert "effective lag" in shown.out
    assert "pip install 'delayzero[cli]'" in shown.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("verb", "columns"), [("show", ["delay_steps", "delay_ms"]), ("record", ["sent_s", "lost"])]
)
def test_help_explains_trace_files(verb, columns, capsys):
    with pytest.raises(SystemExit):
        main(["delays", verb, "--help"])
    shown = capsys.readouterr().out
    for column in columns:
        assert column in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "required: LAW"),
        (["show", "walk:5", "--rule", "fifo"], "unknown rule 'fifo'"),
        (["show", "walk:5", "--max-delay", "3"], "more than max_delay=3"),
        (["show", "walk:5", "--max-delay", "x"], "'x' should be a whole number"),
        (["show", "walk:5", "--seed", "-1"], "should be at least 0"),
        (["show", "trace:nowhere.csv"], "no trace file 'nowhere.csv'"),
        (["show", "constant:1", "--save", "no/such/folder/x.png"], "No such file"),
        (["show", "constant:1", "--save", "x.words"], "'words' is not supported"),
        (["record", "somewhere"], "should be HOST:PORT"),
        (["record", "127.0.0.1:1", "--save", "x.txt"], "should end in .csv"),
        (["record", "127.0.0.1:1", "--save", "no/x.csv"], "no folder 'no'"),
        (["record", "127.0.0.1:1", "--period", "0"], "should be above 0"),
        (["record", "127.0.0.1:1", "--packets", "0"], "should be at least 1"),
        (["record", "127.0.0.1:1", "--period", "0.5"], "at least 1 ms"),
        (["record", "127.0.0.1:1", "--period", "1e30"], "at most 86400000 ms (a day)"),
        (["echo", "--port", "70000"], "between 0 and 65535"),
        (["echo", "--port", "x"], "'x' should be a whole number"),
        (["echo", "--host", "192.0.2.1"], "not an address of this machine"),
        (["echo", "--host", "no.such.host.invalid"], "can't be found"),
    ],
)
def test_errors_are_one_line(words, message, capsys):
    assert message in fails(capsys, "delays", *words)


def test_list_shows_every_law_and_setting(capsys):
    assert main(["delays", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first_words = [line.split()[0] for line in lines if line.startswith("  ")]
    names = [word.partition(":")[0] for word in first_words]
    assert {"constant", "walk", "trace", "outage", "wifi", "4g", "geo"} <= set(names)
    assert not any("``" in line for line in lines)


def test_record_writes_a_trace_and_the_line_to_use_it(tmp_path, capsys):
    stop = threading.Event()
    with open_responder(0, "127.0.0.1") as responder:
        thread = threading.Thread(target=serve, args=(responder, stop))
        thread.start()
        try:
            port = responder.getsockname()[1]
            command = ["delays", "record", f"127.0.0.1:{port}", "--packets", "4", "--period", "2"]
            assert main([*command, "--save", "my trace.csv"]) == 0
            captured = capsys.readouterr()
            assert "exists; choose another file" in fails(
                capsys, *command, "--save", "my trace.csv"
            )
        finally:
            stop.set()
            thread.join()
    assert len((tmp_path / "my trace.csv").read_text().splitlines()) == 5
    assert "delayzero delays show trace:my%20trace.csv@2ms" in captured.out
    assert "4/4" in captured.err
    assert main(["delays", "show", "trace:my trace.csv@2ms"]) == 0


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, "p50 1.00 ms, p99 1.00"),
        (2, "p50 1.00 ms, p99 2.00"),
        (200, "p50 100.00 ms, p99 198.00"),
    ],
)
def test_record_shows_quantiles_by_one_rule(count, shown, tmp_path):
    samples = tuple(Sample(0.0, float(i + 1), False) for i in reversed(range(count)))
    write_trace(samples, tmp_path / "trace.csv")
    assert shown in _recorded(Recording(samples, True), tmp_path / "trace.csv", 20.0)


@pytest.mark.parametrize(("words", "address", "lines"), [
    ((), "127.0.0.1", ["for this machine only"]),
    (("--host", "::1"), "::1", ["for this machine only"]),
    (("--host", "0.0.0.0"), "0.0.0.0", ["on the other machine", "open to every machine"]),
])  # fmt: skip
def test_echo_says_who_can_reach_it(words, address, lines, monkeypatch, capsys):
    bound = []

    def interrupted(listening, stop):
        bound.append(listening.getsockname()[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(responder, "serve", interrupted)
    if address == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 here")
    assert main(["delays", "echo", "--port", "0", *words]) == 0
    assert bound == [address]
    *shown, last = capsys.readouterr().out.splitlines()
    assert last == "stopped"
    assert len(shown) == len(lines)
    for line, part in zip(shown, lines, strict=True):
        assert part in line


def _has_ipv6():
    try:
        open_responder(0, "::1").close()
    except OSError:
        return False
    return True


def test_echo_with_a_port_in_use(capsys):
    with open_responder(0) as listening:
        port = str(listening.getsockname()[1])
        assert "the port is in use" in fails(capsys, "delays", "echo", "--port", port)


def test_unexpected_errors_keep_their_traceback(monkeypatch):
    def broken(words):
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "_dispatch", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main([])


def test_ctrl_c_is_quiet(monkeypatch, capsys):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupted)
    assert main([]) == 130
    assert capsys.readouterr().err == ""


def test_gymnasium_errors_are_expected(monkeypatch, capsys):
    import gymnasium

    def unknown_environment(words):
        gymnasium.make("NoSuchEnvironment-v0")

    monkeypatch.setattr(cli, "_dispatch", unknown_environment)
    assert "NoSuchEnvironment" in fails(capsys)


def test_argument_types():
    assert whole(0)("3") == 3
    assert positive("0.5") == 0.5
    parser = Parser(prog="tool")
    parser.add_argument("--number", type=positive)
    for text in ("nan", "inf", "-1", "word"):
        with pytest.raises(UsageError, match="type: tool --help"):
            parser.parse_args([f"--number={text}"])

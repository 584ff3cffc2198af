import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from delayzero.campaigns import leash

CHILD = """
import signal, sys, time
def stop(*_):
    print('saved', flush=True); sys.exit(130)
signal.signal(signal.SIGTERM, stop)
print('ready', *sys.argv[1:], flush=True)
time.sleep(60)
"""
PARENT = """
import sys, time
from pathlib import Path
from delayzero.campaigns.processes import spawn
import os
spawn(("child", "a", "b c"), Path("log.txt"), os.environ)
time.sleep(60)
"""


def wait_for(path, text):
    end = time.monotonic() + 30
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < end, f"{path} never had {text!r}"
        time.sleep(0.02)


def test_a_process_is_asked_to_stop_when_its_parent_is_killed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("child.py").write_text(CHILD)
    package = str(Path(leash.__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), package])}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=variables)
    wait_for(Path("log.txt"), "ready a b c\n")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(Path("log.txt"), "saved\n")


def test_a_process_whose_parent_has_died_does_not_begin(tmp_path):
    words = [sys.executable, "-I", leash.__file__, "1", "this"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "process 1, which has started this one, has ended" in ended.stderr
    assert "Zen" not in ended.stdout

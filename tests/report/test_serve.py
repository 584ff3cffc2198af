import contextlib
import http.client
import json
import os
import threading
from functools import partial
from http.server import ThreadingHTTPServer

import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.report import cli
from delayzero.report.gather import gather
from delayzero.report.page import report_page
from delayzero.report.serve import LOOPBACK, Handler, Site, new_token

from .made import make_run


@contextlib.contextmanager
def served(folder, token=""):
    """A server of a folder's report, on a free port of this machine."""

    def make(link):
        return report_page(gather([folder]), "title", "command", link, live=True)

    site = Site([folder], make, token)
    server = ThreadingHTTPServer((LOOPBACK, 0), partial(Handler, site, LOOPBACK))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(port, path, **headers):
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    connection.request("GET", path, headers={k.title(): v for k, v in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content.decode(), answer.headers


def test_the_page_follows_the_runs(tmp_path):
    folder = make_run(tmp_path / "run", finished=False)
    with served(tmp_path) as port:
        status, page, headers = ask(port, "/")
        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert "Runs that have not finished" in page
        assert "connect-src 'self'" in page
        before = ask(port, "/version")[1]
        assert ask(port, "/version")[1] == before
        with (folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"interactions": 11_111, "updates": 5000}) + "\n")
        assert ask(port, "/version")[1] != before
        assert "11 111" in ask(port, "/")[1]


def test_only_linked_videos_are_served(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "watch.html").write_text("<p>look")
    (folder / "watch.mp4").write_bytes(b"moving")
    with served(tmp_path) as port:
        assert ask(port, "/video/0")[0] == 404  # no page has linked it yet
        assert "./video/1" in ask(port, "/")[1]
        status, content, headers = ask(port, "/video/0")
        assert (status, content) == (200, "<p>look")
        assert headers["Content-Security-Policy"] == "sandbox allow-scripts"
        assert ask(port, "/video/1")[2]["Content-Type"] == "video/mp4"
        for path in ("/video/2", "/video/../run/config.json", "/run/config.json", "//etc/passwd"):
            assert ask(port, path)[0] == 404


def test_pages_of_others_cannot_ask_through_the_browser(tmp_path):
    make_run(tmp_path / "run")
    with served(tmp_path) as port:
        assert ask(port, "/", host=f"evil.example:{port}")[0] == 421
        for name in (f"localhost:{port}", "localhost", "127.0.0.1"):
            assert ask(port, "/version", host=name)[0] == 200


def test_another_host_needs_the_token(tmp_path):
    make_run(tmp_path / "run")
    token = new_token("0.0.0.0")
    with served(tmp_path, token) as port:
        for path in ("/", "/version", "/?token=", "/?token=wrong", "/video/0"):
            assert ask(port, path)[0] == 403
        assert ask(port, "/", cookie="delayzero-token=wrong")[0] == 403
        status, _, headers = ask(port, f"/?token={token}")
        assert (status, headers["Location"]) == (303, "/")
        assert "HttpOnly" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert ask(port, "/", cookie=cookie)[0] == 200


def test_tokens():
    assert new_token("127.0.0.1") == new_token("localhost") == ""
    assert len(new_token("0.0.0.0")) > 20
    assert new_token("10.0.0.1") != new_token("10.0.0.1")
    with pytest.raises(UsageError, match="number of an address"):
        new_token("example.org")


def test_the_command_prints_its_address(tmp_path, monkeypatch, capsys):
    make_run(tmp_path / "run")
    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", lambda self: None)
    assert main(["report", str(tmp_path), "--serve"]) == 0
    address = capsys.readouterr().out
    assert address.startswith("http://127.0.0.1:")
    assert "token" not in address
    assert main(["report", str(tmp_path), "--serve", "--host", "0.0.0.0"]) == 0
    shown = capsys.readouterr()
    assert "/?token=" in shown.out
    assert "whoever has this address" in shown.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--serve"], "does not exist"),
        (["run", "--port", "80"], "are for --serve"),
        (["run", "--serve", "--port", "70000"], "between 0 and 65535"),
        (["run", "--serve", "--host", "example.org"], "number of an address"),
        (["run", "--serve", "--host", "192.0.2.1"], "cannot serve at 192.0.2.1"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, words, said):
    make_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_folder_that_is_gone_is_a_page_that_says_so(tmp_path, monkeypatch):
    folder = make_run(tmp_path / "run")
    pages = []

    def serve_once(site, host, port, ready):
        folder.rename(tmp_path / "elsewhere")
        pages.append(site.page())

    monkeypatch.setattr(cli, "serve", serve_once)
    assert main(["report", str(folder), "--serve"]) == 0
    assert "does not exist" in pages[0]


def test_a_name_that_is_not_text_is_served(tmp_path):
    make_run(tmp_path / os.fsdecode(b"bad\xffname"))
    with served(tmp_path) as port:
        assert "bad\ufffdname" in ask(port, "/")[1]

"""Serves a report while runs go on: the page loads itself again when their files change.

Only this machine can open it, unless another host is typed; then a token in the address is needed,
which a cookie keeps. Nothing is served but the page, its version, and the videos that it links.
"""

from __future__ import annotations

import hashlib
import hmac
import mimetypes
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from delayzero.arguments import UsageError
from delayzero.report.gather import watched_files
from delayzero.report.listings import Link

LOOPBACK = "127.0.0.1"
COOKIE = "delayzero-token"
NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a browser on this machine may call it; another name would be a page of somebody else's."""
SANDBOX = {"Content-Security-Policy": "sandbox allow-scripts"}
"""For pages in run folders: they are not this one, and must not act as it."""
Make = Callable[[Link], str]
"""Makes the page, from a function that returns the address of a video."""


class Site:
    """What is served: the page as of now.

    Attributes:
        token: What a browser must know; empty if only this machine can ask.
    """

    def __init__(self, paths: Sequence[Path], make: Make, token: str) -> None:
        self.token = token
        self._paths, self._make = paths, make
        self._lock = threading.Lock()
        self._version, self._page = "", ""
        self._videos: dict[str, Path] = {}

    def version(self) -> str:
        """A text that changes with the files of the runs."""
        digest = hashlib.sha256()
        for path in watched_files(self._paths):
            try:
                stat = path.stat()
            except OSError:  # replaced just now
                continue
            digest.update(os.fsencode(path) + f"\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
        return digest.hexdigest()

    def page(self) -> str:
        """The page; made anew if a file has changed."""
        with self._lock:
            version = self.version()
            if version != self._version:
                found: dict[str, Path] = {}

                def link(path: Path) -> str:
                    found[str(len(found))] = path
                    return f"./video/{len(found) - 1}"

                self._page = self._make(link)
                self._version, self._videos = version, found
            return self._page

    def video(self, number: str) -> Path | None:
        """The file of a video that the page links; None if there is no such link."""
        with self._lock:
            return self._videos.get(number)


def serve(site: Site, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C.

    Args:
        site: What to serve.
        host: The address to listen at.
        port: The port; 0 for any that is free.
        ready: Called with the address to open.

    Raises:
        UsageError: The host or the port cannot be used.
    """
    try:
        server = ThreadingHTTPServer((host, port), partial(Handler, site, host))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot serve at {host}, port {port}: {reason}; type another --port or --host"
        ) from None
    server.daemon_threads = True
    query = f"?token={site.token}" if site.token else ""
    with server:
        ready(f"http://{host}:{server.server_address[1]}/{query}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def new_token(host: str) -> str:
    """A token for hosts that others can reach; none for this machine's own address.

    Raises:
        UsageError: The host is not the number of an address.
    """
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise UsageError(
            f"--host {host} should be the number of an address of this machine, such as 0.0.0.0 "
            "for all of them"
        ) from None
    if address.version != 4:
        raise UsageError(f"--host {host} should be an address of version 4, such as 0.0.0.0")
    return "" if address.is_loopback else secrets.token_urlsafe(24)


class Handler(BaseHTTPRequestHandler):
    """Answers requests.

    Args:
        site: What is served.
        host: The address that was typed to listen at.
        request: What :class:`BaseHTTPRequestHandler` takes.
    """

    server_version, sys_version = "delayzero", ""

    def __init__(self, site: Site, host: str, *request: Any) -> None:
        self.site, self.host = site, host
        super().__init__(*request)  # answers the request at once

    def do_GET(self) -> None:
        """Answer a request."""
        address = urlsplit(self.path)
        if not self._own_name():
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "This server has another name.")
        elif self.site.token and self._typed_token(address.query):
            self._keep_token()
        elif self.site.token and not self._has_cookie():
            self._send(HTTPStatus.FORBIDDEN, "Open the address that delayzero printed.")
        elif address.path == "/":
            self._send(HTTPStatus.OK, self.site.page(), "text/html")
        elif address.path == "/version":
            self._send(HTTPStatus.OK, self.site.version())
        elif (path := self._video(address.path)) is not None:
            self._send_file(path)
        else:
            self._send(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def _own_name(self) -> bool:
        """Whether the browser means this machine (a page elsewhere may not ask through it)."""
        name = re.sub(r":\d+$", "", self.headers.get("Host") or "")
        return bool(self.site.token) or name in (*NAMES, self.host)

    def _typed_token(self, query: str) -> bool:
        typed = parse_qs(query).get("token", [""])[0]
        return hmac.compare_digest(typed.encode(), self.site.token.encode())

    def _has_cookie(self) -> bool:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return False
        kept = cookie[COOKIE].value if COOKIE in cookie else ""
        return hmac.compare_digest(kept.encode(), self.site.token.encode())

    def _keep_token(self) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        kept = f"{COOKIE}={self.site.token}; HttpOnly; SameSite=Lax; Path=/"
        self.send_header("Set-Cookie", kept)
        self.send_header("Location", "/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _video(self, path: str) -> Path | None:
        if not path.startswith("/video/"):
            return None
        found = self.site.video(path.removeprefix("/video/"))
        return found if found is not None and found.is_file() else None

    def _send_file(self, path: Path) -> None:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._answer(HTTPStatus.OK, path.read_bytes(), kind, SANDBOX)

    def _send(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        self._answer(status, text.encode(), f"{kind}; charset=utf-8")

    def _answer(
        self,
        status: HTTPStatus,
        content: bytes,
        kind: str,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            **more,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def handle(self) -> None:
        """Answer a connection, whose browser may leave at any time."""
        try:
            super().handle()
        except ConnectionError:
            return

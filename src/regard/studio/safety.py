"""The guard in front of the studio: who may ask, from which page, by which name of the host, and how much.

A page of another site can make a browser send requests to this machine. It does not know the token, cannot read the
cookie, and is told apart by `Origin`; a name of its own that points to this machine is told apart by `Host`.
"""

import asyncio
import hmac
import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from regard.studio.limits import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

POLICY = "; ".join(  # nothing but what comes from the studio itself; no code and no style inside of the page
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
METHODS = ("GET", "HEAD", "POST")
TOKEN_HEADER = "x-regard-token"


def new_token() -> str:
    """Letters and digits that nobody can guess: 192 bits."""
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class TooLarge(Exception):  # noqa: N818 - says what happened
    """A request has more bytes than it may have, or stopped in the middle."""

    def __init__(self, status: int, error: dict[str, str | None]) -> None:
        self.status, self.error = status, error


class Guard:
    """Lets a request through if it has the token, comes by a known name, and is not too large."""

    def __init__(self, app: Any, *, token: str, port: int, names: Iterable[str], any_address: bool, limits: Limits):
        self.app, self.token, self.limits = app, token, limits
        self.cookie = f"regard_studio_{port}"  # cookies of one host are shared by all its ports
        self.hosts = {f"{name}:{port}".lower() for name in names}
        self.port, self.any_address = port, any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or what else a server is asked for."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send, self._cookie_of(scope))
        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer(guarded, *refusal, page=wants_page(scope))
            return
        started = False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await guarded(message)

        try:
            await self.app(scope, _bounded(receive, self.limits), noting)
        except TooLarge as error:
            if not started:
                await _answer(guarded, error.status, error.error)

    def _refusal(self, scope: Scope) -> tuple[int, dict[str, str | None]] | None:
        """The status and the error of a request that may not pass."""
        headers = _headers(scope)
        host, method = headers.get("host", ""), scope["method"]
        if not self._is_known(host):
            cure = "use the address that `regard studio` printed"
            return 421, _error("the studio does not answer under this name", "another host", None, cure)
        if method not in METHODS:
            return 405, _error("the studio does not know this method", "another one", ", ".join(METHODS), None)
        by_header = self._is_token(headers.get(TOKEN_HEADER, ""))
        if not (by_header or self._has_cookie(headers) or self._in_address(scope)):
            cure = "open the address that `regard studio` printed, with its token"
            return 403, _error("the studio does not know you", "no token, or another one", "its token", cure)
        own = {f"http://{host.lower()}", f"https://{host.lower()}"}
        if method == "POST" and not (headers.get("origin", "").lower() in own or by_header):
            cure = "send it from the page of the studio, or with the token in a header"
            return 403, _error("this comes from another page", "another origin", "the page of the studio", cure)
        try:
            length = int(headers.get("content-length", "0"))
        except ValueError:
            return 400, _error("the length of the request", "no number", "a number of bytes", None)
        if not 0 <= length <= self.limits.body:
            return 413, _too_large(self.limits)
        return None

    def _is_known(self, host: str) -> bool:
        if host.lower() in self.hosts:
            return True
        name, _, port = host.rpartition(":")
        if not self.any_address or port != str(self.port):
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))  # numbers cannot be pointed elsewhere, as names can
        except ValueError:
            return False
        return True

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def _has_cookie(self, headers: dict[str, str]) -> bool:
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        return any(name == self.cookie and self._is_token(value) for name, _, value in pairs)

    def _in_address(self, scope: Scope) -> bool:
        if scope["method"] == "POST" or scope["path"] != "/":
            return False
        query = scope.get("query_string", b"").decode("latin-1")
        fields = (field.partition("=") for field in query[:2000].split("&"))
        return any(name == "token" and self._is_token(value) for name, _, value in fields)

    def _cookie_of(self, scope: Scope) -> str | None:
        """The cookie that an address with the token is answered with."""
        known = self._in_address(scope) and self._is_known(_headers(scope).get("host", ""))
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict" if known else None


def wants_page(scope: Scope) -> bool:
    """Whether a person looks at the answer, and not a program."""
    return scope["path"] == "/" and "text/html" in _headers(scope).get("accept", "")


def _headers(scope: Scope) -> dict[str, str]:
    """Header fields by name; of one that comes twice, nothing, since it cannot be trusted."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = value.decode("latin-1") if key not in found else ""
    return found


def _error(what: str, got: str | None, expected: str | None, cure: str | None) -> dict[str, str | None]:
    return {"what": what, "got": got, "expected": expected, "cure": cure}


def _too_large(limits: Limits) -> dict[str, str | None]:
    return _error("the request is too large", "more", f"at most {limits.body / 1e6:g} MB", "send a smaller picture")


def _with_headers(send: Send, cookie: str | None) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode(): value.encode() for name, value in HEADERS.items()}
            if cookie is not None:
                own[b"set-cookie"] = cookie.encode()
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in own]
            message = {**message, "headers": [*kept, *own.items()]}
        await send(message)

    return guarded


def _bounded(receive: Receive, limits: Limits) -> Receive:
    """The parts of a request, which may not be too many, and may not come too slowly."""
    size, whole = 0, False

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal size, whole
        if whole:  # after the last part this waits until the client has gone
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), limits.slowest)
        except TimeoutError:
            text = _error("the request stopped in the middle", "a part of it", "all of it", None)
            raise TooLarge(408, text) from None
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if size > limits.body:
            raise TooLarge(413, _too_large(limits))
        return message

    return bounded


async def _answer(send: Send, status: int, error: dict[str, str | None], *, page: bool = False) -> None:
    if page:
        text = f"<!doctype html><title>regard studio</title><h1>{error['what']}</h1><p>Cure: {error['cure']}.</p>"
        body, kind = text.encode(), b"text/html; charset=utf-8"
    else:
        body, kind = json.dumps({"error": error}).encode(), b"application/json"
    length = str(len(body)).encode()
    headers = [(b"content-type", kind), (b"content-length", length), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

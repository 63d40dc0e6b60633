"""Start a studio: in the foreground for the command, in a thread of its own for scripts and notebooks."""

import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass

from regard.base import RegardError, require
from regard.studio.app import Studio, create_app
from regard.studio.safety import is_loopback, new_token

PORT = 8123
OPEN_TO_OTHERS = (
    "The studio listens on {host}: every machine that reaches this one can ask for the page. Whoever has the address "
    "with its token can run the models, and read the names of runs, their curves and the traces. The connection is not "
    "encrypted, so anybody on the way can read the token. Without --host only this machine can reach the studio."
)


@dataclass(frozen=True)
class Address:
    """Where a studio listens."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """The address that opens the page, with its token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        shown = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
        return f"http://{shown}:{self.port}/?token={self.token}"


def listen(host: str, port: int | None) -> socket.socket:
    """An open socket: at this port, or, where none is given, at 8123 or the next one that is free."""
    wanted = [port] if port is not None else [*range(PORT, PORT + 20), 0]
    for number in wanted:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, number))
            opened.listen(128)  # a browser that opens the page now waits, and is not turned away
            return opened
        except (OSError, OverflowError) as error:
            opened.close()
            reason = getattr(error, "strerror", None) or str(error)
    cure = "choose another one by --port, or leave --port and --host out"
    raise RegardError(f"the studio cannot listen at {host}, port {wanted[0]}", got=reason.lower(), cure=cure)


class Server:
    """A server that runs a studio at an address."""

    def __init__(self, studio: Studio, *, host: str = "127.0.0.1", port: int | None = None) -> None:
        uvicorn = require("uvicorn", extra="studio")
        require("starlette", extra="studio")
        require("python_multipart", extra="studio")
        self.studio, self.socket = studio, listen(host, port)
        self.address = Address(host, self.socket.getsockname()[1], new_token())
        names = ["127.0.0.1", "localhost", "[::1]"]
        if not is_loopback(host):
            names += [host, socket.gethostname(), socket.getfqdn()]
        app = create_app(
            studio, token=self.address.token, port=self.address.port, names=names, any_address=not is_loopback(host)
        )
        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, date_header=False, ws="none", lifespan="off",
            proxy_headers=False, limit_concurrency=studio.limits.connections, timeout_keep_alive=10,
            timeout_graceful_shutdown=1, h11_max_incomplete_event_size=32_768, http="h11",
        )  # fmt: skip
        self.server = uvicorn.Server(config)

    def warm_up(self) -> None:
        """Load the first translator, so that the first answer does not wait for it."""

        def work() -> None:
            library = self.studio.library
            name = library.first("translate")
            if name is not None:
                library.get(name).predict("a", beam=1)

        self.studio.queue.first(lambda: _quietly(work))

    def run(self) -> None:
        """Answers requests until Ctrl-C ends the server, then closes the socket."""
        try:
            self.server.run(sockets=[self.socket])
        finally:
            self.close()

    def start(self) -> None:
        """Serve in a thread; when this comes back the studio answers."""
        self.server.config.load()
        thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True, name="regard-studio"
        )
        thread.start()
        for _ in range(1000):
            if self.server.started or not thread.is_alive():
                break
            time.sleep(0.01)
        self.thread = thread

    def stop(self) -> None:
        """End a server that `start` began."""
        self.server.should_exit = True
        self.thread.join(timeout=10)
        self.close()

    def close(self) -> None:
        """Give back the socket and the thread of the models."""
        self.socket.close()
        self.studio.queue.close()


def _quietly(work: Callable[[], None]) -> None:
    """A mistake here is told when the model is asked for."""
    try:
        work()
    except (RegardError, OSError):
        return


def announce(server: Server, *, open_page: bool) -> None:
    """Say where the page is, and what it means if others can reach it; open it if that is wanted."""
    lines = [f"regard studio: {server.address.url}", "Ctrl-C ends it."]
    if not is_loopback(server.address.host):
        lines.insert(0, OPEN_TO_OTHERS.format(host=server.address.host))
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    if open_page:
        webbrowser.open(server.address.url)

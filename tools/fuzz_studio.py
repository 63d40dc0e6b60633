"""Send a studio requests that no page sends: paths, headers, bodies, pictures, broken sockets; then say how it stood.

    python tools/fuzz_studio.py --requests 20000

The verdict fails if an answer shows something of the inside (a traceback, a path, the secret file that lies beside the
studio), if a file outside was opened, if the server had an error of its own (status 500), or if it does not live.
"""

import argparse
import io
import json
import random
import re
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from studio_server import ROOT, running

SECRET = "the-secret-of-this-machine"
INSIDE = [b"Traceback", b'File "', b'", line ', b"site-packages", b"regard/studio", str(ROOT).encode(), SECRET.encode()]
PLACES = [
    "", "studio.js", "studio.css", "views/translate.js", "api/studio", "api/models", "api/runs", "api/runs/glimpses",
    "api/ledger", "api/traces", "api/traces/noise", "api/traces/noise/rows", "api/predict", "api/predict-picture",
    "api/layers", "api/translate", "api/examples?model=glimpses", "favicon.ico",
]  # fmt: skip
SETTINGS = [
    "beams",
    "nbest",
    "temperature",
    "max_ratio",
    "seed",
    "batch_tokens",
    "min_steps",
    "no_repeat",
    "consensus",
    "x",
]
POSTS = [
    "api/predict",
    "api/layers",
    "api/translate",
    "api/traces/noise/rows",
    "api/traces/example",
    "api/predict-picture",
]
WORDS = [
    "I lost my keys.",
    "",
    " ",
    "a" * 50,
    "é▁<eos>",
    "\x00",
    "𝕏" * 20,
    "\ud800",
    "keys " * 900,
    "../" * 5,
    "seed=7",
]


class Fuzz:
    """One client with its own chance."""

    def __init__(self, address: str, secret: Path, seed: int) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.token = parse_qs(parts.query)["token"][0]
        self.secret, self.chance = secret, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def send(self, content: bytes, *, wait: float = 30.0, close: bool = False) -> bytes:
        """What the server answers to these bytes."""
        answer = b""
        with socket.create_connection((self.host, self.port), timeout=wait) as opened:
            try:
                opened.sendall(content)
                if close:
                    return b""
                while part := opened.recv(65536):
                    answer += part
                    if len(answer) > 3_000_000 or _whole(answer):
                        break
            except OSError:
                pass
        return answer

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, *, close: bool = False
    ) -> bytes:
        """A request with the token, unless `headers` say otherwise."""
        fields = {"Host": f"{self.host}:{self.port}", "X-Regard-Token": self.token, "Connection": "close"}
        if body or method == "POST":
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        fields |= headers or {}
        lines = [f"{method} /{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value != "-")]
        return self.send("\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body, close=close)

    def one(self) -> None:
        """One request of any kind, and a look at the answer."""
        kinds = [self.path, self.headers, self.body, self.body, self.picture, self.socket, self.names, self.stranger]
        kind = self.chance.choice(kinds)
        answer = kind()
        status = re.match(rb"HTTP/1\.1 (\d+)", answer)
        found = status[1].decode() if status else "no answer" if not answer else "other"
        self.counts[f"{kind.__name__}: {found}"] += 1
        if kind == self.stranger and found.startswith("2"):
            self.wrong.append(f"a stranger was answered: {answer[:200]!r}")
        if found == "500":
            self.wrong.append(f"an error of the studio itself: {answer[-200:]!r}")
        page = found == "200" and (b"text/javascript" in answer[:2000] or b"text/html" in answer[:2000])
        for sign in [] if page else INSIDE:
            if sign in answer:
                self.wrong.append(f"an answer to {kind.__name__} shows {sign!r}: {answer[-300:]!r}")

    # ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def path(self) -> bytes:
        """Ways that lead out of the folder of pages, and odd characters."""
        up = self.chance.choice(
            ["../", "..%2f", "%2e%2e/", "..\\", "....//", "%c0%ae%c0%ae/", "/", "//", "file://", "%00"]
        )
        end = self.chance.choice(
            [str(self.secret), "etc/passwd", "app.py", "studio.js", "static/index.html", self.secret.name]
        )
        start = self.chance.choice(["", "views/", "api/runs/", "api/traces/", "api/examples?model=", "answers/"])
        noise = quote("".join(chr(self.chance.randrange(1, 0x500)) for _ in range(self.chance.randrange(6))))
        return self.request(self.chance.choice(["GET", "HEAD"]), start + up * self.chance.randrange(1, 9) + end + noise)

    def names(self) -> bytes:
        """Names of models, runs and traces that are paths."""
        name: Any = self.chance.choice(
            [str(self.secret), "../secret.txt", "/etc/passwd", "~", ".", "glimpses/../..", 7, None, [], "\x00"]
        )
        where = self.chance.choice(["api/predict", "api/layers", "api/translate"])
        text = self.chance.choice([str(self.secret), "x"])
        return self.request("POST", where, json.dumps({"model": name, "text": text}).encode())

    def headers(self) -> bytes:
        """Other hosts, origins, lengths, kinds and far too many fields."""
        odd = "".join(chr(self.chance.randrange(32, 250)) for _ in range(self.chance.randrange(60)))
        choice = self.chance.randrange(8)
        fields: dict[str, str] = [
            {"Host": self.chance.choice(["evil.example", "", odd, "127.0.0.1", "[::1]:99999", "a:b:c"])},
            {"Origin": self.chance.choice(["http://evil.example", "null", odd]), "X-Regard-Token": "-",
             "Cookie": f"regard_studio_{self.port}={self.token}"},
            {"Content-Length": self.chance.choice(["-1", "x", "99999999999", "0", "1e3", "+5"])},
            {"Content-Type": self.chance.choice(["text/plain", odd, "multipart/form-data", "application/json; \x01"])},
            {"Cookie": odd * 50},
            {f"X-{number}": "y" * 40 for number in range(self.chance.randrange(300))},
            {"Transfer-Encoding": self.chance.choice(["chunked", "gzip", odd])},
            {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "eA=="},
        ][choice]  # fmt: skip
        method = self.chance.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", odd[:5] or "X"])
        close = choice in (2, 6)  # the server waits for a body that does not come
        return self.request(method, self.chance.choice(PLACES), b"{}" if method == "POST" else b"", fields, close=close)

    def body(self) -> bytes:
        """JSON of the wrong kinds, of odd numbers, nested deeply, and none at all."""
        if self.chance.random() < 0.15:
            junk = self.chance.choice(
                [b"", b"{", b"[" * 5000, b"\xff\xfe", b'{"a":' * 300, b"NaN", b"1" * 9000, b'"\\ud800"']
            )
            return self.request("POST", self.chance.choice(POSTS), junk)
        body: dict[str, Any] = {
            "model": self.chance.choice(["tatoeba-en-fr", "glimpses", self.value()]),
            "text": self.chance.choice(WORDS) if self.chance.random() < 0.7 else self.value(),
        }
        for name in ("settings", "prefix", "word", "ids", "layer", "head", "rows", "columns", "most", "seed", "second"):
            if self.chance.random() < 0.3:
                body[name] = self.value()
        if self.chance.random() < 0.5:
            body["settings"] = {self.chance.choice(SETTINGS): self.value()}
        if body["model"] == "tatoeba-en-fr" and self.chance.random() < 0.9:
            body["model"] = "glimpses"  # whose answers are quick errors; a few sentences are enough
        where = self.chance.choice(POSTS[:4])
        if where.endswith("rows"):
            body |= {
                "layer": self.chance.choice(["", "self_attn", self.value()]),
                "head": self.chance.choice([0, None, self.value()]),
            }
        return self.request("POST", where, json.dumps(body).encode())

    def value(self, depth: int = 0) -> Any:
        """Any value that JSON has, and numbers that it has not."""
        many: list[Any] = [
            None,
            True,
            0,
            1,
            -1,
            2**70,
            1e308,
            float("nan"),
            -0.5,
            "",
            "x" * 100,
            "../x",
            "\x00",
            10**15,
            8,
        ]
        if depth < 3 and self.chance.random() < 0.4:
            parts = [self.value(depth + 1) for _ in range(self.chance.randrange(4))]
            return parts if self.chance.random() < 0.5 else {str(number): part for number, part in enumerate(parts)}
        return self.chance.choice(many)

    def picture(self) -> bytes:
        """Pictures that are broken, huge, or none."""
        content = self.chance.choice(self._pictures())
        if content and self.chance.random() < 0.6:
            cut = bytearray(content[: self.chance.randrange(1, len(content) + 1)])
            for _ in range(self.chance.randrange(8)):
                cut[self.chance.randrange(len(cut))] = self.chance.randrange(256)
            content = bytes(cut)
        line = "x" + str(self.chance.randrange(10**9))
        fields = {
            "model": self.chance.choice(["glimpses", "tatoeba-en-fr", "../x", ""]),
            "settings": self.chance.choice(["{}", "[", '{"rollouts": 1}', "x"]),
        }
        parts = [
            f'--{line}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        name = self.chance.choice(["a.png", "../../a.png", "\x00", "a" * 300])
        head = f'--{line}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = "".join(parts).encode() + head.encode() + content + f"\r\n--{line}--\r\n".encode()
        if self.chance.random() < 0.15:
            body = body[: self.chance.randrange(len(body))]
        kind = f"multipart/form-data; boundary={line if self.chance.random() < 0.9 else 'other'}"
        return self.request("POST", "api/predict-picture", body, {"Content-Type": kind})

    def _pictures(self) -> list[bytes]:
        if not hasattr(self, "made"):
            from PIL import Image

            self.made: list[bytes] = [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"BM" + bytes(60), b"%PDF-1.4", b"<svg/>"]
            for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"):
                stream = io.BytesIO()
                Image.new("RGB", (40, 30), (200, 10, 60)).save(stream, form)
                self.made.append(stream.getvalue())
            self.made.append(_huge_png())
        return self.made

    def socket(self) -> bytes:
        """Bytes that are no request, and requests that stop in the middle."""
        choice = self.chance.randrange(5)
        noise = bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(1, 400)))
        if choice == 0:
            return self.send(noise + b"\r\n\r\n", wait=8)
        if choice == 1:
            return self.send(b"GET / HTTP/1.1\r\nHost: x\r\n" + noise, close=True)
        if choice == 2:
            return self.send(
                b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{", close=True
            )
        if choice == 3:
            return self.send(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", wait=8)
        return (
            self.request(
                "POST", "api/translate", json.dumps({"model": "tatoeba-en-fr", "text": "a b"}).encode(), close=True
            )
            if self.chance.random() < 0.1
            else b""
        )

    def stranger(self) -> bytes:
        """Somebody without the token, or with another one."""
        fields = self.chance.choice([
            {"X-Regard-Token": "-"}, {"X-Regard-Token": "x" * 32},
            {"X-Regard-Token": "-", "Cookie": f"regard_studio_{self.port}=x"},
            {"X-Regard-Token": "-", "Cookie": f"regard_studio={self.token}"}, {"Host": f"evil.example:{self.port}"},
            {"X-Regard-Token": self.token[:-1]}, {"Host": f"localhost.evil.example:{self.port}"},
        ])  # fmt: skip
        place = self.chance.choice([*PLACES, "?token=", f"?token={self.token[:-1]}x", "?token=" + "a" * 5000])
        return self.request(self.chance.choice(["GET", "POST"]), place, b"{}", fields)


def _whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return bool(found and length and len(body) >= int(length[1]))


def _huge_png() -> bytes:
    """A small file that says it is 60,000 pixels wide and high."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\x00\x00\x00"
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9000))) + chunk(b"IEND", b"")
    )


def main(requests: int, seed: int, clients: int) -> bool:
    """Fuzz a server; whether it stood."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder, secret = Path(place) / "studio", Path(place) / "secret.txt"
        folder.mkdir()
        secret.write_text(SECRET)
        with running(folder, hurried=True) as (address, _, errors):
            every = [Fuzz(address, secret, seed + number) for number in range(clients)]
            share = [requests // clients + (number < requests % clients) for number in range(clients)]
            broken: list[str] = []

            def work(client: Fuzz, count: int) -> None:
                for _ in range(count):
                    try:
                        client.one()
                    except OSError as error:
                        client.counts[f"socket: {type(error).__name__}"] += 1
                        if isinstance(error, ConnectionRefusedError):
                            broken.append("the server does not answer any more")
                            return

            threads = [threading.Thread(target=work, args=pair) for pair in zip(every, share, strict=True)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(1)
            body = json.dumps({"model": "tatoeba-en-fr", "text": "I lost my keys."}).encode()
            after = every[0].request("POST", "api/predict", body)
            lives = "perdu mes clés".encode() in after
    wrong = [*broken, *(text for client in every for text in client.wrong)]
    wrong += [line.strip() for line in errors if line.startswith("opened") or "Traceback" in line or "Error" in line]
    counts = sum((client.counts for client in every), Counter[str]())
    for name, count in sorted(counts.items()):
        print(f"  {name:32} {count:7,}")
    for text, times in Counter(wrong).most_common(12):
        print(f"wrong, {times} times: {text}")
    if wrong:
        print("".join(errors[:80]))
    good = lives and not wrong
    after_it = "translates" if lives else "does not answer"
    verdict = f"{'it stood' if good else 'IT FAILED'}; afterwards it {after_it}"
    print(f"{sum(counts.values()):,} requests in {time.perf_counter() - start:.0f} s: {verdict}")
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sys.exit(0 if main(asked.requests, asked.seed, asked.clients) else 1)

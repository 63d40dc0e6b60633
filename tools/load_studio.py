"""Load a studio as a class of students would: several clients, each with another view, for some minutes.

    python tools/load_studio.py --minutes 10
    python tools/load_studio.py --minutes 60 --pause 4    # people who look at a view for some seconds before they go on

The verdict fails if a request fails (other than by a full queue, which clients answer by waiting), takes longer than
its limit, or if the memory of the server grows by more than 5 % after the first fifth of the time.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from studio_server import running

SENTENCES = [
    "I lost my keys.",
    "Where did you buy this book?",
    "The cat is sleeping.",
    "She gave him a red apple.",
    "Come in!",
]
LIMIT = 60.0  # seconds of a request, its time in the queue included


class Client:
    """Somebody who looks at one view after the other."""

    def __init__(self, address: str, seed: int) -> None:
        parts = urlsplit(address)
        self.host, self.port, self.token = parts.hostname, parts.port, parse_qs(parts.query)["token"][0]
        self.chance = random.Random(seed)
        self.seconds: dict[str, list[float]] = {}
        self.wrong: list[str] = []
        self.busy = 0

    def ask(self, method: str, path: str, body: Any = None, *, blob: tuple[str, bytes] | None = None) -> bytes:
        """The answer to one request, which must be good."""
        connection = http.client.HTTPConnection(str(self.host), self.port, timeout=LIMIT + 30)
        headers, content = {"X-Regard-Token": self.token}, None
        if blob is not None:
            headers["Content-Type"], content = blob
        elif body is not None:
            headers["Content-Type"], content = "application/json", json.dumps(body).encode()
        start = time.perf_counter()
        try:
            connection.request(method, f"/{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        taken = time.perf_counter() - start
        if answer.status == 503:
            self.busy += 1
            time.sleep(1)
        elif answer.status != 200 or b'"kind": "error"' in text:
            self.wrong.append(f"{path}: {answer.status} {text[-200:]!r}")
        elif taken > LIMIT:
            self.wrong.append(f"{path}: {taken:.0f} s")
        self.seconds.setdefault(path.partition("?")[0], []).append(taken)
        return text

    def once(self, picture: bytes) -> None:
        """What one view asks for."""
        kind, text = self.chance.randrange(7), self.chance.choice(SENTENCES)
        if kind == 0:
            for path in ("", "studio.js", "studio.css", "parts.js", "views/translate.js", "api/studio", "api/models"):
                self.ask("GET", path)
        elif kind in (1, 2):
            beams = self.chance.choice([1, 2, 5])
            self.ask("POST", "api/translate", {"model": "tatoeba-en-fr", "text": text, "settings": {"beams": beams}})
        elif kind == 3:
            answer = json.loads(self.ask("POST", "api/predict", {"model": "tatoeba-en-fr", "text": text}))
            if "predictions" in answer:
                self.ask("POST", "api/layers", {"model": "tatoeba-en-fr", "text": text})
        elif kind == 4:
            self.ask("GET", "api/traces/noise")
            for _ in range(6):
                rows = [first := self.chance.randrange(280), first + 20]
                self.ask(
                    "POST",
                    "api/traces/noise/rows",
                    {"layer": self.layer(), "head": self.chance.choice([0, 3, None]), "rows": rows},
                )
        elif kind == 5:
            for path in ("api/runs", "api/runs/glimpses", "api/ledger"):
                self.ask("GET", path)
        else:
            line = "line-of-a-form"
            part = f"--{line}\r\nContent-Disposition: form-data; "
            head = f'{part}name="model"\r\n\r\nglimpses\r\n{part}name="file"; filename="a.png"\r\n\r\n'
            body = head.encode() + picture + f"\r\n--{line}--\r\n".encode()
            self.ask("POST", "api/predict-picture", blob=(f"multipart/form-data; boundary={line}", body))

    def layer(self) -> str:
        """The name of the layer of the trace."""
        if not hasattr(self, "_layer"):
            self._layer: str = json.loads(self.ask("GET", "api/traces/noise"))["layers"][0]["name"]
        return self._layer


def memory(process: int) -> float:
    """Megabytes of a process in the memory of the machine."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def main(minutes: float, clients: int, pause: float) -> bool:
    """Load a server; whether it stood."""
    import io

    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (28, 28), 120).save(stream, "PNG")
    sizes: list[float] = []
    with tempfile.TemporaryDirectory() as place, running(Path(place)) as (address, process, errors):
        every, end = [Client(address, seed) for seed in range(clients)], time.monotonic() + 60 * minutes

        def work(client: Client) -> None:
            while time.monotonic() < end:
                try:
                    client.once(stream.getvalue())
                except (OSError, http.client.HTTPException, ValueError) as error:
                    client.wrong.append(f"{type(error).__name__}: {error}")
                time.sleep(min(client.chance.uniform(0, 2 * pause), max(0.0, end - time.monotonic())))

        threads = [threading.Thread(target=work, args=[client]) for client in every]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(2)
            sizes.append(memory(process))
            if len(sizes) % 150 == 0:
                print(f"  after {len(sizes) // 30} minutes: {sizes[-1]:.0f} MB", flush=True)
        first = len(sizes) // 5
        before, after = statistics.median(sizes[first : 2 * first + 1]), statistics.median(sizes[-first - 1 :])
    seconds: dict[str, list[float]] = {}
    for client in every:
        for path, own in client.seconds.items():
            seconds.setdefault(path, []).extend(own)
    for path, own in sorted(seconds.items()):
        times = f"median {statistics.median(own):6.2f} s, longest {max(own):6.2f} s"
        print(f"  {path or '/':24} {len(own):6,} requests, {times}")
    wrong = Counter(text for client in every for text in client.wrong)
    wrong.update(line.strip() for line in errors if line.startswith("opened") or "Traceback" in line)
    for text, times in wrong.most_common(10):
        print(f"wrong, {times} times: {text}")
    grown = after / before - 1
    good = not wrong and grown < 0.05
    count, busy = sum(map(len, seconds.values())), sum(client.busy for client in every)
    print(f"{count:,} requests by {clients} clients in {minutes:g} minutes, {busy} of them told to wait")
    print(f"memory {before:.0f} MB, then {after:.0f} MB ({100 * grown:+.1f} %): {'it stood' if good else 'IT FAILED'}")
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0, help="seconds between two views of a client, in the mean")
    asked = parser.parse_args()
    sys.exit(0 if main(asked.minutes, asked.clients, asked.pause) else 1)

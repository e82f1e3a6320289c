"""A studio that serves a folder, as a process of its own, and pages of it without a browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from websockets.sync.client import connect

PATIENCE = 300.0  # seconds after which a test gives up; what it waits for takes one on a quiet machine


class Served:
    """The command, the address that it printed, and requests to it."""

    def __init__(self, folder, *options):
        command = [sys.executable, "-m", "rapidbm", "studio", str(folder), "--no-browser", "--json"]
        self.process = subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        told = json.loads(self.process.stdout.readline())
        self.folder, self.address = Path(folder), told["address"]
        self.port = int(re.search(r":(\d+)/", self.address)[1])
        self.token = self.address.split("token=")[1]
        self.host = f"127.0.0.1:{self.port}"
        self.origin = f"http://{self.host}"

    def request(self, method, path, *, body=None, headers=None, known=True):
        """Status, headers and body; `known` adds the token and our own host and origin."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = {"Authorization": f"Bearer {self.token}", "Origin": self.origin} if known else {}
        link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": self.host, **given, **(headers or {})}.items():
            if value is not None:
                link.putheader(name, value)
        chunked = body is not None and not isinstance(body, bytes)
        if body is not None:
            link.putheader(
                *(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", len(body)))
            )
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            link.endheaders(body, encode_chunked=chunked)
        answer = link.getresponse()
        found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        link.close()
        return found

    def socket(self, **headers):
        given = {"Authorization": f"Bearer {self.token}"} | headers
        return connect(
            f"ws://{self.host}/socket",
            additional_headers=given,
            origin=self.origin,
            max_size=None,
            open_timeout=PATIENCE,
        )

    @contextmanager
    def page(self):
        with self.socket() as socket:
            yield Page(socket)

    def children(self):
        """Processes of the fork server and of the workers."""
        told = subprocess.run(["ps", "-eo", "ppid,pid"], capture_output=True, text=True, check=True)
        rows = [tuple(map(int, line.split())) for line in told.stdout.splitlines()[1:]]
        found = [self.process.pid]
        for parent in found:  # it grows
            found += [pid for above, pid in rows if above == parent]
        return found[1:]

    def memory(self):
        """The most memory that the server itself had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])

    def end(self, how=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Page:
    """What a page of the browser does, in Python."""

    def __init__(self, socket):
        self.socket, self.number, self.heard = socket, 0, []

    def tell(self, do, **given):
        self.socket.send(json.dumps({"do": do, **given}))

    def ask(self, question, **given):
        """The answer; AssertionError with the words of an error."""
        told = self.asked(question, **given)
        assert "error" not in told, told
        return told["answer"]

    def asked(self, question, **given):
        self.number += 1
        mine = self.number
        self.socket.send(json.dumps({"id": mine, "ask": question, **given}))
        return self.wait(lambda told: told.get("event") == "answer" and told["id"] == mine)

    def wait(self, wanted, seconds=PATIENCE):
        """The first message for which `wanted` is true; all that came are in `heard`."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                told = read(self.socket.recv(timeout=left))
            except TimeoutError:
                break
            self.heard.append(told)
            if told.get("event") == "dreamt":
                self.tell("seen", key="frame/dream")
            elif told.get("event") == "frame":
                self.tell("seen", key=f"frame/{told['run']}")
            if wanted(told):
                return told
        late = [{k: v for k, v in told.items() if k != "payload"} for told in self.heard[-3:]]
        raise AssertionError(f"nothing of that kind came in {seconds} s; of late {late}")

    def event(self, name, **more):
        def wanted(told):
            return told.get("event") == name and all(told.get(k) == v for k, v in more.items())

        return self.wait(wanted)

    def train(self, **chosen):
        """Starts a training and watches it; its name."""
        given = {k: chosen.pop(k) for k in ("dataset", "pace", "paused", "name") if k in chosen}
        run = self.ask("train", **{"dataset": "bars4", **given}, chosen=chosen)["run"]
        self.tell("watch", runs={run: 0})
        return run

    def until(self, run, wanted):
        """The state of a training once it is as wanted."""
        return self.wait(
            lambda told: told.get("event") == "training" and told["run"] == run and wanted(told["state"])
        )["state"]

    def steer(self, run, what, **given):
        self.tell("steer", run=run, what=what, **given)


def read(message):
    """A header, with the payload under `payload`."""
    (size,) = struct.unpack_from("<I", message)
    return {**json.loads(message[4 : 4 + size]), "payload": message[4 + size :]}


@contextmanager
def served(folder, *options):
    studio = Served(folder, *options)
    try:
        yield studio
    finally:
        code = studio.end()
    assert code in (130, -signal.SIGKILL)

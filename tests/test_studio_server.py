"""The studio's server without a browser: what it answers, whom it refuses, and what it survives."""

import io
import json
import os
import re
import shutil
import signal
import socket
import time
import zipfile
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from typer.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rapidbm.cli.main import app
from rapidbm.errors import InputError
from rapidbm.machines.files import load_tensors
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.studio.guard import LOOPBACK, Access
from studios import PATIENCE, read, served

SMALL = {"hidden": [30], "patterns": 4, "replicas": 2, "epochs": 40}
SLOW = 2  # updates a second: of 160 the last one is far off when a test steers or kills


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio") / "runs"
    folder.mkdir()
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The same training by the library."""
    return trained(
        tmp_path_factory.mktemp("alone") / "R", Recipe.made("bars4", {**SMALL, "hidden": (30,)})
    )


def command(*words):
    """The command beside the studio."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def parameters(folder):
    tensors, _ = load_tensors(Path(folder) / "checkpoints" / "latest.safetensors")
    return {k: v for k, v in tensors.items() if not k.startswith("watch/")}


def same_bits(one, other):
    a, b = parameters(one), parameters(other)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def trained(folder, recipe):
    for _ in Run.create(folder, recipe).go():
        pass
    return folder


# -- what it answers ----------------------------------------------------------------------------------


def test_it_answers_what_a_page_asks_and_never_loads_torch(studio):
    with studio.page() as page:
        hello = page.ask("hello")
        assert hello["read_only"] is False
        assert hello["folder"] == "runs"
        machines = page.ask("machines")
        assert machines["embedded"][0]["name"] == "pretrained:mnist"
        data = page.ask("datasets")
        assert "bars4" in data["datasets"]
        digits = page.ask("data", dataset="digits")
        assert (digits["train"], digits["shape"], digits["labels"]) == (1438, [8, 8], 10)
        recipe = page.ask("recipe", dataset="bars4", chosen={"replicas": 3})["recipe"]
        assert (recipe["hidden"], recipe["patterns"], recipe["replicas"]) == ([1000], 8, 3)
        place = page.ask("place", machine="specimen:retrieval")
        assert place["temperature"] < place["stable"] < place["glass"]
        assert "unknown" in page.asked("recipe", dataset="bars4", chosen={"negative": "no"})["error"]
        assert "nobody knows" in page.asked("what")["error"]
    maps = Path(f"/proc/{studio.process.pid}/maps").read_text()
    assert "libtorch" not in maps
    assert "numpy" not in maps


def test_a_training_is_an_ordinary_run_that_is_paused_stepped_and_gone_on_with(studio, alone):
    with studio.page() as page:
        run = page.train(**SMALL, pace=SLOW)
        about = page.wait(lambda told: told.get("event") == "training" and told["about"])["about"]
        assert about["machine"] == "rbm 16×30 K=4"
        page.event("frame", run=run)
        page.until(run, lambda state: state["update"] > 0)
        page.steer(run, "pause")
        paused = page.until(run, lambda state: state["status"] == "paused")
        assert 0 < paused["update"] < paused["updates"] == 160
        # What lies in the folder while it is paused is the machine as it is now.
        _, header = load_tensors(studio.folder / run / "checkpoints" / "latest.safetensors")
        assert header["update"] == paused["update"]
        page.steer(run, "step")
        stepped = page.until(run, lambda state: state["update"] > paused["update"])
        assert (stepped["update"], stepped["status"]) == (paused["update"] + 1, "paused")
        page.steer(run, "pace", pace=0)
        page.steer(run, "go")
        ended = page.until(run, lambda state: state["status"] == "finished")
        assert ended["update"] == 160
        records = [r for told in page.heard if told.get("event") == "training" for r in told["records"]]
        lines = (studio.folder / run / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == records
    assert "hamming_test" in command("evaluate", studio.folder / run, "--json")
    same_bits(studio.folder / run, alone)


def test_a_refused_training_stops_nothing_and_one_that_begins_stops_what_it_replaces(studio):
    with studio.page() as page, studio.page() as other:
        old = page.train(**SMALL, pace=SLOW)
        page.until(old, lambda state: state["update"] >= 1)
        dense = {**SMALL, "patterns": None, "negative": "pid"}
        assert "dense" in other.asked("check", dataset="bars4", chosen=dense)["error"]
        refused = other.asked("train", dataset="bars4", chosen=dense, stop=[old])["error"]
        assert "--" not in refused
        states = {t["run"]: t for t in other.ask("hello")["trainings"]}
        assert states[old]["status"] == "running"
        assert (states[old]["data"], states[old]["negative"]) == ("bars4", "pid")
        beside = other.ask("train", dataset="bars4", chosen=SMALL, pace=SLOW)["run"]
        now = page.until(old, lambda state: state["update"] >= 3)
        assert now["status"] == "running"  # the other page let it go on
        new = other.ask("train", dataset="bars4", chosen=SMALL, pace=SLOW, stop=[old])["run"]
        page.until(old, lambda state: state["status"] == "interrupted")
        for run in (beside, new):
            other.tell("watch", runs={run: 0})
            other.steer(run, "stop")
            other.until(run, lambda state: state["status"] == "interrupted")
        assert "list of runs" in other.asked("train", dataset="bars4", chosen=SMALL, stop="x")["error"]


def test_a_hidden_tab_is_sent_no_pictures_until_it_is_looked_at(studio):
    with studio.page() as page:
        page.tell("dream", what="open", machine="specimen:paramagnet", chains=4)
        run = page.train(**SMALL, pace=20)
        page.event("dreamt")
        page.event("frame")
        page.tell("hidden", on=True)
        page.ask("hello")
        page.ask("place", machine="specimen:paramagnet")  # what was on its way has come
        before = len(page.heard)
        time.sleep(1.5)
        page.ask("hello")
        late = [told["event"] for told in page.heard[before:]]
        assert late.count("dreamt") + late.count("frame") <= 1
        assert late.count("training") <= 1
        page.tell("hidden", on=False)
        assert page.event("training", run=run)["state"]["update"] > 0
        page.event("dreamt")
        page.event("frame")
        page.steer(run, "stop")
        page.until(run, lambda state: state["status"] == "interrupted")


def test_a_rate_that_is_changed_is_in_the_run_and_repeats_to_the_same_bits(studio, tmp_path):
    chosen = {**SMALL, "epochs": 10, "projection": "none"}
    with studio.page() as page:
        run = page.train(**chosen, paused=True)
        page.until(run, lambda state: state["status"] == "paused")
        for at in (1, 2, 3):
            page.steer(run, "step")
            page.until(run, lambda state, at=at: state["update"] == at)
        page.steer(run, "rate", rate=0.007)
        changed = page.until(run, lambda state: state["changes"])
        assert changed["changes"] == [[at, 0.007]]
        page.steer(run, "rate", rate=-1)
        assert "above 0" in page.event("remark")["text"]
        page.steer(run, "go")
        page.until(run, lambda state: state["status"] == "finished")
    told = json.loads((studio.folder / run / "run.json").read_text())["recipe"]
    assert told["rate_changes"] == [[at, 0.007]]
    same_bits(studio.folder / run, trained(tmp_path / "again", Recipe.from_dict(told)))
    before = Recipe.from_dict({**told, "rate_changes": []})
    with pytest.raises(AssertionError):  # it made a difference
        same_bits(studio.folder / run, trained(tmp_path / "unchanged", before))


def test_pages_come_and_go_and_find_the_training_further_on(studio):
    with studio.page() as page:
        run = page.train(**SMALL | {"epochs": 400}, pace=10)
        left = page.until(run, lambda state: state["update"] > 8)["update"]
        seen = sum(len(told["records"]) for told in page.heard if told.get("event") == "training")
    with studio.page() as back, studio.page() as other:
        line = next(t for t in back.ask("hello")["trainings"] if t["run"] == run)
        assert line["update"] >= left
        back.tell("watch", runs={run: seen})
        news = back.event("training", run=run)
        assert news["from"] == seen
        back.until(run, lambda state: state["update"] > left)
        other.tell("watch", runs={run: 0})
        assert other.event("training", run=run)["from"] == 0
        other.steer(run, "stop")
        back.until(run, lambda state: state["status"] == "interrupted")
        assert back.ask("resume", run=run, pace=SLOW)["run"] == run
        back.tell("watch", runs={run: 0})
        back.steer(run, "stop")
        back.until(run, lambda state: state["status"] == "interrupted")


def test_a_dream_obeys_its_sliders_and_what_is_held(studio):
    def dreamt(page, **wanted):
        return page.wait(
            lambda told: told.get("event") == "dreamt" and all(told[k] == v for k, v in wanted.items())
        )

    with studio.page() as page:
        page.tell("dream", what="open", machine="specimen:paramagnet", chains=16, beta=1.0)
        told = page.event("dream")
        assert (told["shape"], told["patterns"]) == ([10, 10], 0)
        page.tell("dream", what="hold", up=[0, 7], down=[3])
        page.tell("dream", what="set", beta=0.0)
        first = dreamt(page, beta=0.0)
        assert bits(first)[:, [0, 7]].all()
        assert not bits(first)[:, 3].any()
        dreamt(page, number=first["number"] + 5)
        late = np.stack([bits(f) for f in page.heard if f.get("event") == "dreamt" and f["beta"] == 0.0])
        free = np.delete(late, [0, 3, 7], axis=2)
        # Coins; six standard errors are exceeded by one dream of 5e8.
        assert abs(free.mean() - 0.5) < 6 * 0.5 / free.size**0.5
        page.tell("dream", what="set", field=10.0, beta=1.0)
        up = bits(dreamt(page, field=10.0))
        assert np.delete(up, [3], axis=1).mean() > 0.99
        assert not up[:, 3].any()
        for wrong in ({"what": "set", "beta": -1}, {"what": "hold", "up": [1000]}):
            page.tell("dream", **wrong)
            assert page.event("remark")["text"]
        page.tell("dream", what="open", machine="specimen:retrieval", start={"from": "pattern"})
        page.event("dream", machine="specimen:retrieval")
        page.tell("dream", what="ladder", on=True, rungs=6)
        ladder = page.wait(lambda told: told.get("ladder"))
        assert ladder["arrays"][0][2] == [6, 100]
        page.tell("dream", what="open", machine="no such run")
        assert "no run" in page.event("remark")["text"]


def bits(frame):
    _, _, (rows, columns) = frame["arrays"][0]
    packed = np.frombuffer(frame["payload"], np.uint8, rows * -(-columns // 8)).reshape(rows, -1)
    return np.unpackbits(packed, axis=1, count=columns)


def test_a_page_that_sees_nothing_is_sent_two_pictures_and_no_queue(studio):
    def heard(wanted):
        while True:
            told = read(silent.recv(timeout=PATIENCE))
            if told["event"] in ("dreamt", wanted):
                return told["event"]

    with studio.socket() as silent:
        silent.send(json.dumps({"do": "dream", "what": "open", "machine": "specimen:glass"}))
        assert [heard("dreamt"), heard("dreamt")] == ["dreamt", "dreamt"]
        for n in range(30):  # and no third one before any of these answers
            silent.send(json.dumps({"id": n, "ask": "place", "machine": "specimen:retrieval"}))
            assert heard("answer") == "answer"
        silent.send(json.dumps({"do": "seen", "key": "frame/dream"}))
        assert heard("dreamt") == "dreamt"


def test_looks_are_told_how_far_they_are_and_can_be_taken_back(studio):
    with studio.page() as page:
        found = page.ask("spectrum", machine="specimen:retrieval")
        assert found["outliers"] == 3
        wide = page.ask("landscape", machine="specimen:retrieval")
        assert wide["distinct"] < 10
        assert len(wide["places"]) == sum(count for _, count in wide["groups"])
        assert page.ask("landscape", machine="specimen:retrieval") == wide  # kept
        page.socket.send(json.dumps({"id": 900, "ask": "verdict", "machine": "specimen:crowded"}))
        page.event("progress", id=900)
        page.tell("cancel", id=900)
        assert page.ask("basins", machine="specimen:retrieval")["overlap"][0] == 1.0
        assert not [told for told in page.heard if told.get("id") == 900 and told["event"] == "answer"]
        assert "dense" in page.asked("basins", machine="specimen:glass")["error"]
        assert "without data" in page.asked("likelihood", machine="specimen:glass")["error"]


def test_a_run_is_exported_as_one_page_and_named_by_what_it_is_called(studio):
    name = "<img src=x onerror=alert(1)>"
    recipe = Recipe.made("bars4", {"hidden": (5,), "patterns": 2, "epochs": 1, "device": "cpu"})
    trained(studio.folder / name, recipe)
    with studio.page() as page:
        listed = {run["name"]: run for run in page.ask("runs")["runs"]}
        assert listed[name]["status"] == "finished"
        assert listed[name]["curve"]
        assert page.ask("run", run=name)["status"] == "finished"
    status, headers, body = studio.request("GET", "/export?run=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-security-policy"] == "sandbox"
    assert b"<img src=x" not in body
    assert b"</html>" in body
    assert not re.search(rb'(?:src|href)="https?:', body)
    assert studio.request("GET", "/export?run=none")[0] == 404


# -- whom it refuses ----------------------------------------------------------------------------------

PATHS = ("/", "/page/main.js", "/page/style/base.css", "/export?run=x", "/socket", "/nothing")


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_answered(studio, path):
    wrong = {"Authorization": "Bearer wrong"}
    cookie = {"Cookie": f"rapidbm-studio-{studio.port}=wrong"}
    for headers in ({}, wrong, cookie, {"Cookie": "=;;=" * 50}):
        status, found, body = studio.request("GET", path, headers=headers, known=False)
        assert (status, b"token" in body) == (403, True)
        assert found["x-content-type-options"] == "nosniff"
    assert studio.request("POST", "/upload?name=a.csv", body=b"0,1\n", known=False)[0] == 403
    assert studio.request("GET", "/?token=wrong", known=False)[0] == 403
    assert studio.request("GET", f"/page/main.js?token={studio.token}", known=False)[0] == 403


def test_the_token_moves_from_the_address_into_a_cookie(studio):
    status, headers, _ = studio.request("GET", f"/?token={studio.token}", known=False)
    assert (status, headers["location"]) == (303, "/")
    assert re.search(r"; HttpOnly; SameSite=Strict$", headers["set-cookie"])
    cookie = headers["set-cookie"].split(";")[0]
    status, headers, body = studio.request("GET", "/", headers={"Cookie": cookie}, known=False)
    assert status == 200
    assert studio.token.encode() not in body
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert not [k for k in headers if k.startswith("access-control")]
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1"},
        {"Host": "localhost.evil.example:{port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_stranger_is_refused_though_he_has_the_token(studio, headers):
    given = {k: v.format(port=studio.port) for k, v in headers.items()}
    for method, path in (("GET", "/"), ("GET", "/page/main.js"), ("POST", "/upload?name=a.csv")):
        body = b"0,1\n" if method == "POST" else None
        status, found, _ = studio.request(method, path, body=body, headers=given)
        assert status == 403
        assert "access-control-allow-origin" not in found
    with pytest.raises(InvalidStatus) as refused, studio.socket(**given):
        pass
    assert refused.value.response.status_code in (400, 403)


def test_what_changes_something_must_say_where_it_is_from(studio):
    assert studio.request("POST", "/upload?name=a.csv", body=b"0\n", headers={"Origin": None})[0] == 403
    assert (
        studio.request("OPTIONS", "/upload", headers={"Access-Control-Request-Method": "POST"})[0] == 405
    )
    assert studio.request("PUT", "/", body=b"")[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/..%2fapp.py",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/style/../../../__init__.py",
        "/page/main.js%00.css",
        "/page/",
        "/page",
        "/etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_page(studio, path):
    status, _, body = studio.request("GET", path)
    assert status in (307, 400, 404)
    assert b"import" not in body
    assert b"root:" not in body


def test_no_name_leads_out_of_the_folder(studio):
    outside = studio.folder.parent / "outside"
    recipe = Recipe.made("bars4", {"hidden": (5,), "patterns": 2, "epochs": 1, "device": "cpu"})
    Run.create(outside, recipe)
    (studio.folder / "link").unlink(missing_ok=True)
    (studio.folder / "link").symlink_to(outside)
    names = (
        "../outside",
        "link",
        str(outside),
        "a/../../outside",
        "..",
        ".",
        "",
        "data",
        "x" * 400,
    )
    with studio.page() as page:
        for name in names:
            for ask in ("run", "resume"):
                assert "error" in page.asked(ask, run=name), name
            assert "error" in page.asked("place", machine=name), name
            assert studio.request("GET", f"/export?run={quote(name)}")[0] == 404
        assert "link" not in {run["name"] for run in page.ask("runs")["runs"]}
        for dataset in (
            "upload:../outside/run.json",
            "/etc/passwd",
            "x.csv",
            "upload:no.csv",
            "../a.npy",
        ):
            assert "error" in page.asked("data", dataset=dataset), dataset
            assert "error" in page.asked("train", dataset=dataset, chosen={}), dataset
        for name in ("../up", "a/b", ".hidden", "data", "x" * 500, "\n"):
            assert "error" in page.asked("train", dataset="bars4", chosen={}, name=name), name
    assert sorted(p.name for p in outside.iterdir() if p.name != ".lock") == ["run.json"]


def test_sizes_beyond_reason_are_refused(studio):
    with studio.page() as page:
        for chosen in (
            {"hidden": [100_000], "patterns": None},
            {"replicas": 10**6},
            {"epochs": 10**12},
            {"rate": "fast"},
            {"device": "cuda:7"},
            {"options": {"x": 1}},
        ):
            assert "error" in page.asked("train", dataset="bars4", chosen=chosen), chosen


def test_nonsense_ends_the_page_that_speaks_it_and_no_other(studio):
    with studio.page() as witness:
        for nonsense in ("{", "[]", '{"ask": 1}', '{"x": NaN}', "[" * 5000, "x" * 300_000, '{"id": "a"}'):
            with studio.socket() as page:
                page.send(nonsense)
                with pytest.raises(Exception, match=r"close|1009|sent"):
                    page.recv(timeout=PATIENCE)
        for odd in ({"do": "steer"}, {"do": "watch", "runs": 7}, {"do": "cancel"}, {"do": "no"}, {}):
            witness.socket.send(json.dumps(odd))
        assert witness.ask("hello")


def test_text_that_is_no_text_ends_the_page_and_prints_nothing(tmp_path):
    with served(tmp_path) as own:
        with own.page() as witness:
            for words in (b"\xff\xfe", b'{"id": 1, "ask": "\xc3("}'):
                with own.socket() as page:
                    page.send(words, text=True)
                    with pytest.raises(ConnectionClosed, match="1007"):
                        page.recv(timeout=PATIENCE)
            assert witness.ask("hello")
        own.process.send_signal(signal.SIGINT)
        said = own.process.stderr.read()
        assert "Traceback" not in said
        assert "UTF-8" not in said


def test_no_answer_tells_where_a_link_leads(studio, tmp_path):
    secret = tmp_path / "secret"
    Run.create(secret, Recipe.made("bars4", {"hidden": (5,), "epochs": 1, "device": "cpu"}))
    told = []
    for part in ("", "run.json", "checkpoints", "metrics.jsonl"):
        place = studio.folder / f"led-{part or 'whole'}"
        if part:
            shutil.copytree(secret, place)
            (place / part).unlink(missing_ok=True)
            (place / part).symlink_to(secret / part)
        else:
            place.symlink_to(secret)
        with studio.page() as page:
            name = place.name
            told.append(page.asked("run", run=name))
            told.append(page.asked("place", machine=name))
            told.append(page.asked("spectrum", machine=name))
            told.append(page.asked("resume", run=name))
            page.tell("dream", what="open", machine=name)
            told.append(page.event("remark"))
            status, _, body = studio.request("GET", f"/export?run={name}")
            told.append(json.loads(body) if status == 404 else status)
            told.append(page.ask("runs")["runs"])
    words = [
        str({k: v for k, v in x.items() if k != "payload"} if isinstance(x, dict) else x) for x in told
    ]
    assert sum("link" in x or "leads" in x or "its folder" in x for x in words) > 10
    for x in words:
        assert str(tmp_path) not in x
        assert "secret" not in x
    for place in studio.folder.glob("led-*"):
        place.unlink() if place.is_symlink() else shutil.rmtree(place)


# -- files --------------------------------------------------------------------------------------------


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def test_a_file_is_taken_in_and_trained_on(studio):
    rows = np.random.default_rng(0).integers(0, 2, (40, 9))
    status, _, body = studio.request("POST", "/upload?name=..%2F..%2Fmy%20table.npy", body=saved(rows))
    told = json.loads(body)["answer"]
    assert (status, told["dataset"], told["shape"]) == (200, "upload:my-table.npy", [3, 3])
    again = json.loads(studio.request("POST", "/upload?name=my-table.npy", body=saved(rows))[2])
    assert again["answer"]["dataset"] == "upload:my-table-2.npy"
    with studio.page() as page:
        assert "upload:my-table.npy" in page.ask("datasets")["uploads"]
        run = page.train(dataset="upload:my-table.npy", hidden=[8], patterns=2, epochs=2)
        page.until(run, lambda state: state["status"] == "finished")
    command("evaluate", studio.folder / run)


BAD = {
    "words.csv": b"a,b\nyes,maybe\n",
    "ragged.csv": b"0,1,0\n1,0\n",
    "levels.csv": b"0,1,2,3\n4,5,6,7\n",
    "truncated.npy": saved(np.ones((50, 50), np.int8))[:300],
    "pickle.npy": b"\x80\x04\x95" + b"cos\nsystem\n" * 3,
    "picture.png": b"\x89PNG\r\n\x1a\n",
    "noise.npz": b"PK\x03\x04" + bytes(range(200)),
    "empty.csv": b"",
    "page.html": b"<script>alert(1)</script>",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_its_reason_and_does_not_stay(studio, name):
    before = sorted((studio.folder / "data").iterdir()) if (studio.folder / "data").is_dir() else []
    status, _, body = studio.request("POST", f"/upload?name={name}", body=BAD[name])
    assert status in (400, 415, 422)
    assert len(json.loads(body)["error"]) > 15
    after = sorted((studio.folder / "data").iterdir()) if (studio.folder / "data").is_dir() else []
    assert after == before


def test_a_gigabyte_is_refused_and_memory_stays_bounded(studio):
    before = studio.memory()
    with socket.create_connection(("127.0.0.1", studio.port)) as claim:  # by what it claims
        claim.sendall(
            f"POST /upload?name=a.csv HTTP/1.1\r\nHost: {studio.host}\r\nOrigin: {studio.origin}\r\n"
            f"Authorization: Bearer {studio.token}\r\nContent-Length: {2**30}\r\n\r\n".encode()
        )
        assert claim.recv(100).startswith(b"HTTP/1.1 413")
    piece = b"0,1\n" * 2**18
    sent = 0

    def endless():
        nonlocal sent
        for _ in range(2**10):
            sent += len(piece)
            yield piece

    status = studio.request("POST", "/upload?name=a.csv", body=endless())[0]  # and by what comes
    assert status == 413
    assert sent < 2**28
    assert studio.memory() - before < 64 * 2**20
    assert not list((studio.folder / "data").glob(".*.part"))


def test_a_megabyte_that_unpacks_to_a_gigabyte_is_refused_unseen(studio):
    bomb = io.BytesIO()
    with (
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file,
        file.open("samples.npy", "w") as member,
    ):
        header = {"descr": "|i1", "fortran_order": False, "shape": (1000, 10**6)}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(1000):
            member.write(bytes(10**6))
    assert len(bomb.getvalue()) < 1.1e6
    status, _, body = studio.request("POST", "/upload?name=bomb.npz", body=bomb.getvalue())
    assert status == 422
    assert "bomb.npz unpacks to 1,000,000,000 bytes, more than 268,435,456" in json.loads(body)["error"]
    assert not (studio.folder / "data" / "bomb.npz").exists()


# -- what it survives ---------------------------------------------------------------------------------


def test_two_hundred_sockets_do_not_keep_a_page_out_nor_hurt_a_training(studio):
    before = studio.memory()
    with studio.page() as page:
        run = page.train(**SMALL | {"epochs": 2000}, pace=10)
        page.until(run, lambda state: state["update"] > 5)
        silent = [socket.create_connection(("127.0.0.1", studio.port)) for _ in range(200)]
        for link in silent[::2]:
            link.sendall(b"GET / HTTP/1.1\r\nHost:")  # and never the rest
        for _ in range(40):
            with pytest.raises(InvalidStatus), studio.socket(Authorization="Bearer wrong"):
                pass
        many = 0
        with suppress(InvalidStatus), ExitStack() as stack:
            while many < 40:
                stack.enter_context(studio.socket())
                many += 1
        assert 10 < many < 40  # so many pages, and no more
        for link in silent:
            link.close()
        now = page.ask("hello")["trainings"]
        assert next(t for t in now if t["run"] == run)["status"] == "running"
        with studio.page() as other:
            assert other.ask("hello")
        at = page.until(run, lambda state: True)["update"]
        page.until(run, lambda state: state["update"] > at + 5)
        page.steer(run, "stop")
        page.until(run, lambda state: state["status"] == "interrupted")
    assert studio.memory() - before < 64 * 2**20


def test_a_training_that_dies_takes_nothing_with_it_and_can_be_gone_on_with(studio, alone):
    with studio.page() as page:
        run = page.train(**SMALL, pace=SLOW)
        page.until(run, lambda state: state["update"] > 3)
        (worker,) = [pid for pid in studio.children() if str(studio.folder / run) in held_files(pid)]
        os.kill(worker, signal.SIGKILL)
        dead = page.until(run, lambda state: state["status"] == "killed")
        assert "signal 9" in dead["reason"]
        assert page.ask("machines")
        page.ask("resume", run=run, pace=0)
        page.tell("watch", runs={run: 0})
        page.until(run, lambda state: state["status"] == "finished")
    same_bits(studio.folder / run, alone)


def held_files(pid):
    try:
        return {os.readlink(path).removesuffix("/.lock") for path in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return set()


@pytest.mark.slow
def test_a_killed_server_leaves_a_run_that_the_command_resumes_to_the_same_bits(tmp_path, alone):
    with served(tmp_path / "runs") as studio:
        with studio.page() as page:
            run = page.train(**SMALL, pace=SLOW)
            page.until(run, lambda state: state["update"] > 6)
            workers = studio.children()
            studio.end(signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while any(Path(f"/proc/{pid}").is_dir() for pid in workers):
            assert time.monotonic() < end, "workers outlive their server"
            time.sleep(0.05)
    status = json.loads((tmp_path / "runs" / run / "run.json").read_text())["status"]
    assert status == "interrupted"
    command("train", "--resume", "--out", tmp_path / "runs" / run)
    same_bits(tmp_path / "runs" / run, alone)
    lines = [json.loads(x) for x in (tmp_path / "runs" / run / "metrics.jsonl").read_text().splitlines()]
    wanted = [json.loads(x) for x in (alone / "metrics.jsonl").read_text().splitlines()]
    for record in (*lines, *wanted):
        del record["seconds"]
    assert lines == wanted


def test_ctrl_c_saves_what_is_trained(tmp_path):
    with served(tmp_path / "runs") as studio, studio.page() as page:
        run = page.train(**SMALL, pace=SLOW)
        page.until(run, lambda state: state["update"] > 3)
        assert studio.end() == 130
    info = json.loads((tmp_path / "runs" / run / "run.json").read_text())
    assert (info["status"], info["update"] > 3) == ("interrupted", True)


def test_a_studio_that_only_shows_changes_nothing(tmp_path):
    recipe = Recipe.made("bars4", {"hidden": (5,), "patterns": 2, "epochs": 1, "device": "cpu"})
    trained(tmp_path / "runs" / "one", recipe)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    with served(tmp_path / "runs", "--read-only") as studio, studio.page() as page:
        assert page.ask("hello")["read_only"]
        assert "--read-only" in page.asked("train", dataset="bars4", chosen={})["error"]
        assert "--read-only" in page.asked("resume", run="one")["error"]
        assert "--read-only" in page.asked("label", run="one", title="x")["error"]
        assert "--read-only" in page.asked("delete", run="one")["error"]
        status, _, body = studio.request("POST", "/upload?name=a.csv", body=b"0,1\n1,0\n")
        assert (status, b"--read-only" in body) == (403, True)
        assert page.ask("spectrum", machine="one")["values"]
        assert studio.request("GET", "/export?run=one")[0] == 200
        page.tell("dream", what="open", machine="one")
        page.event("dreamt")
    after = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    assert after == before


# -- the command --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--host", "0.0.0.0"], "--public"),
        (["--host", "192.0.2.7"], "--public"),
        (["--name", "box.example"], "--public"),
        (["--host", "192.0.2.7", "--public"], "cannot be had"),
    ],
    ids=str,
)
def test_a_public_address_must_be_meant(tmp_path, words, told):
    done = CliRunner().invoke(app, ["studio", str(tmp_path), "--no-browser", *words])
    assert isinstance(done.exception, InputError)
    assert told in str(done.exception)


def test_a_public_studio_is_asked_for_by_figures_or_by_its_name():
    public = Access("token", 8715, (*LOOPBACK, "box.example"), any_address=True)
    private = Access("token", 8715)
    for host, both in (("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("box.example", False),
                       ("192.0.2.7", False), ("[2001:db8::1]", False)):  # fmt: skip
        assert public.is_host(f"{host}:8715")
        assert private.is_host(f"{host}:8715") is both
    for host in ("evil.example:8715", "127.0.0.1:1", "127.0.0.1.evil.example:8715", ":8715", "", "8715"):
        assert not public.is_host(host)
    assert public.is_origin("http://box.example:8715", "box.example:8715")
    assert not public.is_origin("http://192.0.2.7:8715", "box.example:8715")
    assert Access("token", 80).is_host("127.0.0.1")

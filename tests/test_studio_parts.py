"""The studio's parts, each by itself: messages, pages, queues, uploads, dreams, runs that are steered."""

import asyncio
import json
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import rapidbm as rb
from rapidbm.data.labelled import with_label_units
from rapidbm.disk import inside, locked
from rapidbm.errors import InputError
from rapidbm.machines.files import load_tensors
from rapidbm.progress import telling, watch
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from rapidbm.studio.messages import message, message_size, parse_header
from rapidbm.studio.pages import MAX_WAITING as SLOTS
from rapidbm.studio.pages import Page
from rapidbm.studio.request_queue import MAX_WAITING as QUESTIONS
from rapidbm.studio.request_queue import RequestQueue
from rapidbm.studio.studio import MAX_READERS, Studio
from rapidbm.studio.uploads import ENDINGS, UploadError, safe_name, save_upload
from rapidbm.studio.work.analyses import SPINS_ALONE, Analyses
from rapidbm.studio.work.arrays import fields, numbers, packed, spins
from rapidbm.studio.work.dreaming import Dream
from rapidbm.studio.work.machines import SPECIMENS, opened, subject, without_places
from rapidbm.studio.work.page_words import title_of
from rapidbm.studio.work.queries import Queries, answer
from rapidbm.studio.work.recipes import recipe_of
from rapidbm.studio.work.steered import SteeredRun
from rapidbm.studio.work.training import _couplings
from rapidbm.training.schedules import Schedule

# -- messages -----------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.text(), st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_a_header_comes_back_and_what_follows_is_aligned(header):
    whole = message(header, b"payload")
    assert parse_header(whole) == header
    assert whole.endswith(b"payload")
    assert (len(whole) - len(b"payload")) % 4 == 0


@pytest.mark.parametrize(
    "whole", [b"", b"\1", struct.pack("<I", 4) + b"[1] ", struct.pack("<I", 9) + b"{"]
)
def test_what_is_no_message(whole):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_header(whole)


def test_sizes_that_no_message_has():
    for size in (0, 3, 2**31):
        with pytest.raises(ValueError, match="bytes"):
            message_size(struct.pack("<I", size))


def test_arrays_are_packed_one_after_the_other():
    states = torch.tensor([[1, -1, 1], [-1, -1, 1]])
    kinds, raw = packed(
        {"s": spins(states), "x": numbers([1.5, -2.0]), "i": ("i8", torch.tensor([-3, 4]))}
    )
    assert kinds == [["s", "bits", [2, 3]], ["x", "f32", [2]], ["i", "i8", [2]]]
    assert np.unpackbits(np.frombuffer(raw[:2], np.uint8).reshape(2, 1), axis=1, count=3).tolist() == [
        [1, 0, 1],
        [0, 0, 1],
    ]
    assert np.frombuffer(raw[4:12], "<f4").tolist() == [1.5, -2.0]
    assert np.frombuffer(raw[12:14], np.int8).tolist() == [-3, 4]
    assert len(raw) == 16


def test_couplings_in_255_steps():
    values = torch.linspace(-2.0, 2.0, 1001)
    (kind, found), most = fields(values)
    assert kind == "i8"
    assert most == pytest.approx(1.98, abs=0.01)  # which one in a hundred exceeds
    inside = values.abs() <= most
    assert ((found / 127 * most - values)[inside].abs() <= most / 254 + 1e-6).all()
    assert fields(torch.zeros(3))[1] == 1.0


# -- pages --------------------------------------------------------------------------------------------


def delivered(script):
    """What a page was sent, and the page, after a script was run on it."""
    sent = []

    async def send(whole):
        sent.append(parse_header(whole))

    async def run():
        page = Page("page", send)
        task = asyncio.create_task(page.deliver())
        for step in script(page):
            assert step is None
            for _ in range(5):
                await asyncio.sleep(0)
        page.close()
        await task
        return page

    return sent, asyncio.run(run())


def test_of_one_key_the_newest_is_sent_and_pictures_only_two_ahead():
    def script(page):
        page.send("state", {"n": 1})
        assert page.post("state", message({"n": 2}))  # it replaces the one before
        yield
        for n in range(6):
            page.send("frame/x", {"frame": n})
            yield
        page.send("answer/1", {"answer": 1})
        yield
        page.seen("frame/x")
        yield
        page.seen("frame/none")

    sent, _ = delivered(script)
    assert sent == [{"n": 2}, {"frame": 0}, {"frame": 1}, {"answer": 1}, {"frame": 5}]


def test_what_is_made_when_its_turn_comes():
    def script(page):
        page.post("a", lambda: message({"made": True}))
        page.post("b", lambda: None)
        yield

    assert delivered(script)[0] == [{"made": True}]


def test_a_page_that_takes_nothing_is_closed():
    async def run():
        page = Page("page", None)
        for n in range(SLOTS + 1):
            page.send(str(n), {})
        assert page.closed
        assert len(page._slots) == SLOTS

    asyncio.run(run())


# -- queues -------------------------------------------------------------------------------------------


class Fake:
    """A worker that does nothing by itself."""

    def __init__(self, on_message, on_exit):
        self.on_message, self.on_exit, self.told, self.killed, self.closed = (
            on_message,
            on_exit,
            [],
            False,
            False,
        )

    def send(self, header):
        self.told.append(header)

    def kill(self):
        self.killed = True

    def close(self):
        self.closed = True

    def answer(self, **more):
        self.on_message({"event": "answer", **more}, b"whole")


class Fakes:
    def __init__(self):
        self.all = []

    def fork(self, on_message, on_exit):
        self.all.append(Fake(on_message, on_exit))
        return self.all[-1]


def test_a_queue_answers_one_question_after_the_other_and_forgets_what_is_taken_back():
    fork_server, heard = Fakes(), []
    queue = RequestQueue(fork_server, {"do": "queries"})

    def hear(header, whole):
        heard.append(header)

    numbers = [queue.ask({"ask": n, "id": n}, hear) for n in range(4)]
    (worker,) = fork_server.all
    assert worker.told == [{"do": "queries"}, {"ask": 0, "id": 0}]
    worker.on_message({"event": "progress", "id": 0}, b"")
    queue.cancel(numbers[1])
    worker.answer(id=0)
    assert [told["id"] for told in heard] == [0, 0]
    assert worker.told[-1]["ask"] == 2
    queue.cancel(numbers[2])  # it is being answered: only the end of the worker ends that
    assert worker.killed
    assert fork_server.all[1].told == [{"do": "queries"}, {"ask": 3, "id": 3}]
    worker.answer(id=2)  # too late: it counts for nothing
    fork_server.all[1].on_exit("its process was ended by signal 9")
    assert heard[-1] == {"event": "answer", "page": None, "id": 3,
                         "error": "no answer: its process was ended by signal 9"}  # fmt: skip
    queue.ask({"ask": 4}, hear)
    assert len(fork_server.all) == 3


def test_questions_do_not_pile_up():
    heard = []
    queue = RequestQueue(Fakes(), {})
    for n in range(QUESTIONS + 2):
        queue.ask({"id": n}, lambda header, whole: heard.append(header))
    assert [told["id"] for told in heard] == [QUESTIONS + 1]
    assert "too many" in heard[0]["error"]


def test_a_server_that_ended_while_the_fork_server_began_prints_nothing():
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours, worker = socket.socketpair()
    command = [sys.executable, "-P", "-m", "rapidbm.studio.work", str(there.fileno())]
    with tempfile.TemporaryFile() as output, here, there, ours, worker:
        socket.send_fds(here, [b"worker"], [worker.fileno(), output.fileno()])
        here.close()  # before the library is loaded
        ours.close()
        worker.close()
        done = subprocess.run(
            command, pass_fds=[there.fileno()], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_who_reads_a_file_holds_nobody_up(tmp_path):
    async def run():
        studio, sent = Studio(tmp_path), []

        async def send(whole):
            sent.append(parse_header(whole))

        studio.fork_server = fakes = Fakes()
        page, other = studio.open_page(send), studio.open_page(send)
        for number in range(MAX_READERS + 1):
            told = {"id": number, "ask": "data", "dataset": "upload:slow.csv"}
            studio.receive(page, json.dumps(told))
        await asyncio.sleep(0)
        readers = list(fakes.all)  # a worker for each, and one question that waits
        assert [worker.told[0]["do"] for worker in readers] == ["read"] * MAX_READERS
        studio.receive(other, json.dumps({"id": 50, "ask": "data", "dataset": "bars4"}))
        queries = fakes.all[MAX_READERS]  # of the other page
        assert queries.told == [{"folder": str(tmp_path), "do": "queries"}, {**queries.told[1], "id": 50}]
        queries.answer(id=50)
        assert list(other._slots) == ["answer/50"]  # before any file is read
        readers[1].answer(id=1)
        await asyncio.sleep(0.01)
        assert list(page._slots) == ["answer/1"]
        assert [worker.closed for worker in readers] == [n == 1 for n in range(MAX_READERS)]
        assert fakes.all[-1].told[0]["do"] == "read"  # the one that waited
        studio.close_page(page)
        await asyncio.sleep(0.01)
        left = [worker.killed for worker in fakes.all]
        assert left == [worker is not queries and not worker.closed for worker in fakes.all]
        assert not studio._readers

    asyncio.run(run())


def test_a_long_question_of_one_page_does_not_hold_up_another(tmp_path):
    async def run():
        studio = Studio(tmp_path)

        async def send(whole):
            pass

        studio.fork_server = fakes = Fakes()
        page, other = studio.open_page(send), studio.open_page(send)
        studio.receive(page, json.dumps({"id": 1, "ask": "recipe", "dataset": "upload:slow.csv"}))
        studio.receive(page, json.dumps({"id": 2, "ask": "runs"}))
        studio.receive(other, json.dumps({"id": 3, "ask": "runs"}))
        slow, quick = fakes.all
        assert [told.get("id") for told in slow.told] == [None, 1]  # the next one of this page waits
        assert [told.get("id") for told in quick.told] == [None, 3]
        quick.answer(id=3)
        assert list(other._slots) == ["answer/3"]
        studio.close_page(page)
        studio.close_page(other)
        assert (slow.killed, quick.killed, quick.closed) == (True, False, True)
        assert not studio.queues
        assert len(fakes.all) == 2  # nobody is left to ask what waited

    asyncio.run(run())


def test_questions_about_a_table_wait_for_each_other_and_hold_up_nothing_else(tmp_path):
    async def run():
        studio = Studio(tmp_path)

        async def send(whole):
            pass

        studio.fork_server = fakes = Fakes()
        page = studio.open_page(send)
        for number, ask in enumerate(("table", "runs", "row"), 1):
            studio.receive(page, json.dumps({"id": number, "ask": ask}))
        slow, quick = fakes.all
        assert [told.get("do") for told in slow.told[:1] + quick.told[:1]] == ["tables", "queries"]
        assert ([told.get("id") for told in slow.told], quick.told[1]["id"]) == ([None, 1], 2)
        slow.answer(id=1)
        assert slow.told[-1]["id"] == 3
        studio.close_page(page)
        assert slow.killed
        assert quick.killed

    asyncio.run(run())


def test_settings_that_are_compared_are_told_to_who_asked_and_can_be_taken_back(tmp_path):
    async def run():
        studio = Studio(tmp_path)

        async def send(whole):
            pass

        studio.trainings.fork_server = fakes = Fakes()
        page, other = studio.open_page(send), studio.open_page(send)
        asked = {
            "id": 5,
            "ask": "train",
            "dataset": "bars4",
            "chosen": {"budget": "1m"},
            "preset": "auto",
        }
        studio.receive(page, json.dumps(asked))
        (worker,) = fakes.all
        worker.on_message({"event": "search", "line": "nine pairs"}, b"")
        told = parse_header(page._slots["progress/5"])
        assert (told["id"], told["line"]) == (5, "nine pairs")
        assert not other._slots
        studio.receive(other, json.dumps({"do": "cancel", "id": 5}))
        assert not worker.killed  # it is another page's
        studio.receive(page, json.dumps({"do": "cancel", "id": 5}))
        assert worker.killed
        worker.on_exit("its process was ended by signal 9")
        assert "signal 9" in parse_header(page._slots["answer/5"])["error"]
        assert not studio.trainings.running()
        studio.receive(page, json.dumps({**asked, "id": 6}))
        fakes.all[-1].on_message({"event": "created", "run": "r", "records": []}, b"")
        studio.receive(page, json.dumps({"do": "cancel", "id": 6}))
        assert not fakes.all[-1].killed  # it has begun: its own button stops it

    asyncio.run(run())


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("alloc_cpu: can't allocate memory: 85")])
def test_too_little_memory_is_said_in_words(tmp_path, error):
    def fails(asked):
        raise error

    pipe = Told()
    answer(pipe, {"ask": "data", "id": 1}, {"data": fails}, tmp_path)
    assert pipe.all[0][0]["error"].startswith("this takes more memory than there is")


# -- words for the page -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("3 of 10 done; give a larger limit=, or look at less", "3 of 10 done; look at less"),
        ("use layers, or --model dbm", "use layers, or model dbm"),
        ("give patterns=K (--patterns K), or 'cd' (--negative)", "give patterns K, or 'cd'"),
        ("give --metric hamming, and a --preset", "give metric hamming, and a preset"),
        ("anneal it (method='ais')", "anneal it (method 'ais')"),
        ("there is no run 'a--b' or rate-limit=3.csv", "there is no run 'a--b' or rate-limit=3.csv"),
    ],
)  # fmt: skip
def test_errors_on_the_page_have_no_words_of_the_command_line(tmp_path, error, told):
    assert without_places(InputError(error), tmp_path) == told


def test_a_run_that_was_named_by_a_time_gets_a_name_that_can_be_read(tmp_path):
    recipe = Recipe.made("bars4", {"hidden": (8,), "patterns": 2, "epochs": 1, "replicas": 1})
    for name in ("bars4-pid-20261118-053908-2", "mine"):
        Run.create(tmp_path / name, recipe)
    found = {run["name"]: run["title"] for run in Queries(tmp_path).runs({})[0]["runs"]}
    assert found["mine"] == "mine"
    assert found["bars4-pid-20261118-053908-2"] == "bars4, RBM 16×8 K=2, PID, 18 Nov 05:39:08 (2)"
    assert {title_of(run, brief=True) for run in rb.Runs(tmp_path)} == {
        "mine",
        "bars4, 18 Nov 05:39:08 (2)",
    }


# -- choices that fit ---------------------------------------------------------------------------------


def test_what_needs_patterns_is_refused_before_a_training_and_named(tmp_path):
    desk = Queries(tmp_path)
    dense = {"dataset": "bars4", "chosen": {"patterns": None, "hidden": [10]}}
    told, _ = desk.recipe(dense)
    assert (told["recipe"]["negative"], told["recipe"]["projection"]) == ("pcd", "none")
    assert told["refused"]["negative"] == ["pid"]
    assert set(told["refused"]["projection"]) == {"sign", "clip", "gibbs"}
    assert desk.check(dense)[0]["fits"]
    assert desk.recipe({"dataset": "bars4", "chosen": {}})[0]["refused"] == {}
    for more in ({"negative": "pid"}, {"projection": "sign"}):
        with pytest.raises(InputError, match="dense"):
            desk.check({"dataset": "bars4", "chosen": {**dense["chosen"], **more}})
    assert not list(tmp_path.iterdir())


# -- tables -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder with a run of a table with words, numbers and a gap."""
    folder = tmp_path_factory.mktemp("mixed")
    rows = [f"{'red' if i % 3 else 'blue'},{i * 0.37 % 5:.2f},{i % 2},{'abc'[i % 3]}" for i in range(60)]
    rows[4] = ",1.5,1,a"
    (folder / "table.csv").write_text("\n".join(["colour,length,flag,kind", *rows]) + "\n")
    chosen = {"hidden": (6,), "patterns": None, "negative": "cd", "epochs": 1, "replicas": 1,
              "metrics": (), "projection": "none", "sweeps": 1}  # fmt: skip
    recipe = Recipe.made(str(folder / "table.csv"), chosen)
    for _ in Run.create(folder / "table-cd", recipe).go():
        pass
    return folder


def test_cards_for_spins_say_so_where_a_table_has_other_units(mixed):
    looks, asked = Analyses(mixed), {"machine": "table-cd"}
    assert not subject(mixed, asked).machine.layers.spins
    for name in SPINS_ALONE:
        with pytest.raises(InputError, match="This card is for machines whose units are all ±1"):
            looks.answers[name](asked)
    place, _ = Queries(mixed).place(asked)
    assert (place["load"], place["units"]) == (None, subject(mixed, asked).machine.layers.columns)
    (run,) = Queries(mixed).runs({})[0]["runs"]
    assert not run["reason"]


def test_a_table_with_other_units_dreams_and_its_cells_have_names(mixed):
    pipe = Told()
    dream = Dream(pipe, mixed, "p", {"machine": "table-cd", "chains": 4})
    (told, _) = pipe.all[0]
    assert len(told["columns"]) == dream.machine.visible == told["shape"][1]
    assert {"flag", "kind, 1 of 3", "kind, 3 of 3"} <= set(told["columns"])
    assert (told["spins"], told["patterns"]) == (False, 0)
    dream.handle({"do": "start", "start": {"from": "data"}})
    dream.frame()
    for wrong in ({"do": "hold", "up": [0]}, {"do": "set", "field": 0.5}):
        with pytest.raises(InputError, match="units are all ±1"):
            dream.handle(wrong)
    dream.handle({"do": "hold", "up": [], "down": []})
    assert dream.frame() is None


def test_pictures_of_a_training_have_all_columns_of_a_table(mixed):
    machine = subject(mixed, {"machine": "table-cd"}).machine
    assert _couplings(machine).shape == (6, machine.visible)


def test_a_hidden_page_is_sent_no_frames(mixed):
    dream = Dream(Told(), mixed, "p", {"machine": "specimen:paramagnet", "chains": 2})
    assert dream.moves
    dream.handle({"do": "hidden", "on": True})
    assert not dream.moves
    dream.handle({"do": "hidden", "on": False})
    assert dream.moves


# -- uploads ------------------------------------------------------------------------------------------


@given(st.text(max_size=300), st.sampled_from(ENDINGS))
def test_a_file_gets_a_name_of_plain_letters(stem, ending):
    name = safe_name(stem.replace("\0", "") + ending)
    assert name.endswith(ending)
    assert set(name[: -len(ending)]) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    )
    assert 1 <= len(name) <= 70


@pytest.mark.parametrize("name", ["x", "x.exe", ".csv.html", "", "x.csv/", "run.json", "csv"])
def test_other_endings_are_refused(name):
    with pytest.raises(UploadError) as refused:
        safe_name(name)
    assert refused.value.status == 415


def test_what_is_too_large_leaves_nothing_behind(tmp_path):
    async def pieces():
        for _ in range(10):
            yield b"x" * 100

    for claimed in (None, "10"):  # what it claims counts for nothing
        with pytest.raises(UploadError) as refused:
            asyncio.run(save_upload(tmp_path, "a.csv", claimed, pieces(), largest=500))
        assert refused.value.status == 413
    with pytest.raises(UploadError):
        asyncio.run(save_upload(tmp_path, "a.csv", "501", pieces(), largest=500))
    assert list((tmp_path / "data").iterdir()) == []
    assert asyncio.run(save_upload(tmp_path, "a.csv", None, pieces(), largest=1000)) == "a.csv"
    assert (tmp_path / "data" / "a.csv").stat().st_size == 1000


def test_files_do_not_go_where_a_link_leads(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "data").symlink_to(tmp_path / "elsewhere")

    async def pieces():
        yield b"0,1\n"

    with pytest.raises(InputError, match="leads out"):
        asyncio.run(save_upload(tmp_path / "runs", "a.csv", None, pieces()))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_errors_do_not_tell_where_the_folder_lies_or_a_link_leads(tmp_path):
    real, folder, secret = tmp_path / "real", tmp_path / "runs", tmp_path / "secret"
    real.mkdir()
    secret.mkdir()
    folder.symlink_to(real)
    for place in (folder, real):
        told = without_places(f"{place / 'mine' / 'run.json'} is damaged", folder)
        assert told == "mine/run.json is damaged"
        assert without_places(f"{place} is full", folder) == "the studio's folder is full"
    (real / "led").symlink_to(secret)
    with pytest.raises(InputError) as refused:
        inside(folder, "led")
    assert str(secret) in str(refused.value)
    told = without_places(refused.value, folder)
    assert told.startswith("led leads out of its folder: ")
    assert str(tmp_path) not in told
    assert without_places(KeyError(), folder) == "KeyError"


# -- runs that are steered ----------------------------------------------------------------------------


def recipe(**more):
    chosen = {"hidden": (12,), "patterns": 3, "epochs": 6, "projection": "none", "device": "cpu"}
    chosen |= {"evaluate": "end", **more}
    return Recipe.made("bars4", chosen)


def same(one, other):
    a, b = (load_tensors(run.latest)[0] for run in (one, other))
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_a_rate_that_is_changed_is_the_same_whoever_makes_the_updates(tmp_path, optimizer):
    chosen = recipe(optimizer=optimizer, rate=(0.01,), decay=1.0, rate_floor=0.0)
    steered = SteeredRun.of(Run.create(tmp_path / "steered", chosen))
    for step in steered.go():
        if step.update in (7, 8):
            steered.change_rate(0.05 / step.update)
    assert steered.recipe.rate_changes == ((7, 0.05 / 7), (8, 0.05 / 8))
    told = json.loads((steered.folder / "run.json").read_text())["recipe"]
    assert told["rate_changes"] == [[7, 0.05 / 7], [8, 0.05 / 8]]
    again = Run.create(tmp_path / "again", Recipe.from_dict(told))
    for _ in again.go():
        pass
    assert same(steered, again)
    plain = Run.create(tmp_path / "plain", chosen)
    for _ in plain.go():
        pass
    assert not same(steered, plain)


def test_a_change_after_the_newest_checkpoint_survives_a_kill(tmp_path):
    whole = SteeredRun.of(Run.create(tmp_path / "whole", recipe()))
    for step in whole.go():
        if step.update == 13:
            whole.change_rate(0.003)
    cut = SteeredRun.of(Run.create(tmp_path / "cut", recipe()))
    kept = (tmp_path / "kept").with_suffix(".safetensors")
    steps = cut.go()
    for step in steps:
        if step.update == 10:
            cut.keep()
            kept.write_bytes(cut.latest.read_bytes())
        if step.update == 13:
            cut.change_rate(0.003)
            break
    steps.close()
    cut.latest.write_bytes(kept.read_bytes())  # as a kill after update 13 would have left it
    for _ in Run(cut.folder).go():
        pass
    assert same(whole, cut)


def test_a_run_is_steered_between_two_steps_and_by_a_rate(tmp_path):
    run = SteeredRun.of(Run.create(tmp_path / "run", recipe()))
    for call in (run.keep, lambda: run.change_rate(0.1)):
        with pytest.raises(InputError, match="between two steps"):
            call()
    steps = run.go()
    next(steps)
    for wrong in (0, -1.0, "fast", float("nan"), None, True):
        with pytest.raises(InputError, match="above 0"):
            run.change_rate(wrong)
    assert run.recipe.rate_changes == ()
    steps.close()


def test_schedules_with_changes():
    schedule = Schedule(decay=0.5, changes=((4, 1.0), (8, 0.1)))
    assert schedule.starts((0.2, 0.3), 3) == (0.2, 0.3)
    assert schedule.starts((0.2, 0.3), 4) == (1.0, 1.0)
    assert schedule.starts((0.2,), 100) == (0.1,)
    for wrong in (((4,),), ((4, 0.0),), ((5, 1.0), (4, 1.0)), ((0.5, 1.0),), [(1, 1.0)], (("a", 1),)):
        with pytest.raises(InputError, match="changes of the rate"):
            Schedule(changes=wrong)


def test_the_page_of_a_run_says_that_its_rate_was_changed(tmp_path):
    from rapidbm.runs.report.words import recipe_in_words

    run = Run.create(tmp_path / "run", replace(recipe(), rate_changes=((1200, 0.005),)))
    assert "from update 1,200 on rate 0.005" in dict(recipe_in_words(run))["Updates"]


# -- what a page may choose ---------------------------------------------------------------------------


def test_choices_are_checked(tmp_path):
    found, preset = recipe_of(tmp_path, {"dataset": "bars4", "chosen": {"rate": 0.1, "hidden": [7]}})
    assert (found.rate, found.hidden, found.patterns, preset) == ((0.1,), (7,), 8, "paper-bars")
    for chosen in (
        {"device": "cuda"},
        {"dataset": "x"},
        {"hidden": "7"},
        {"budget": 60},
        {"rate": [1, 2]},
    ):
        with pytest.raises(InputError, match="the choices"):
            recipe_of(tmp_path, {"dataset": "bars4", "chosen": chosen})
    for dataset in (None, "", "/etc/passwd.csv", "my.npy", "upload:../x.csv", "upload:.csv", "basN", 7):
        with pytest.raises(InputError):
            recipe_of(tmp_path, {"dataset": dataset})
    with pytest.raises(InputError, match="beyond the studio"):
        recipe_of(tmp_path, {"dataset": "bars4", "chosen": {"hidden": [50_000], "patterns": None}})


def test_specimens_are_what_their_names_say():
    for name, phase in (
        ("retrieval", "retrieval"),
        ("glass", "spin glass"),
        ("paramagnet", "paramagnet"),
    ):
        assert rb.phase_point(SPECIMENS[name].make()).phase == (phase,)
    assert rb.phase_point(SPECIMENS["crowded"].make()).phase == ("spin glass",)


def test_only_what_is_in_the_folder_or_the_package_is_opened(tmp_path):
    for name in ("specimen:no", "pretrained:no", "none", "../x", 7, None):
        with pytest.raises(InputError):
            opened(tmp_path, name)
    with pytest.raises(InputError, match="replicas"):
        subject(tmp_path, {"machine": "specimen:glass", "replica": 1})
    assert subject(tmp_path, {"machine": "pretrained:mnist"}).machine.visible == 784


# -- labels as units ----------------------------------------------------------------------------------


def test_labels_become_units_below_the_image():
    plain, data = rb.load("digits"), rb.load("digits-labelled")
    assert (data.shape, data.label_units, data.name) == ((10, 8), 16, "digits-labelled")
    assert torch.equal(data.train.spins[:, :64], plain.train.spins)
    units = data.train.spins[:, 64:] > 0
    assert torch.equal(units.int().argmax(1), data.train.labels)
    assert units.sum(1).eq(1).all()
    assert not data.test.known[64:].any()
    assert plain.label_units == 0


def test_where_a_row_has_room_a_class_has_several_units():
    rows = np.random.default_rng(0).integers(0, 2, (20, 4, 7))
    data = rb.from_arrays(rows, train_labels=[3, 5, 8, 8] * 5)
    found = with_label_units(data)
    assert found.shape == (5, 7)
    code = {int(k): found.train.spins[found.train.labels == k][0, -7:].tolist() for k in (3, 5, 8)}
    assert code == {3: [1, 1, *[-1] * 5], 5: [-1, -1, 1, 1, -1, -1, -1], 8: [*[-1] * 4, 1, 1, -1]}
    with pytest.raises(InputError, match="no labels"):
        with_label_units(rb.load("bars4"))


# -- dreams -------------------------------------------------------------------------------------------


class Told:
    """A pipe that keeps what it is told."""

    def __init__(self):
        self.all = []

    def send(self, header, arrays=None):
        self.all.append((header, dict(arrays or {})))


def test_chains_start_from_images_of_a_label_and_its_units_can_be_held(tmp_path):
    chosen = Recipe.made(
        "digits-labelled", {"hidden": (20,), "patterns": 4, "epochs": 1, "device": "cpu"}
    )
    for _ in Run.create(tmp_path / "run", chosen).go():
        pass
    pipe = Told()
    dream = Dream(pipe, tmp_path, "page", {"machine": "run", "chains": 9})
    header, arrays = pipe.all[0]
    assert (header["labels"], header["label_units"]) == (list(range(10)), 16)
    codes = arrays["codes"][1]
    assert codes.argmax(1).tolist() == list(range(10))
    dream.start({"from": "data", "label": 7})
    assert dream.spins[0, :, 64:80].argmax(1).eq(7).all()
    up = [64 + int(i) for i in torch.nonzero(codes[3] > 0).flatten()]
    down = [64 + int(i) for i in torch.nonzero(codes[3] < 0).flatten()]
    dream.handle({"do": "hold", "up": up, "down": down})
    for _ in range(3):
        dream.frame()
    assert torch.equal(dream.spins[0, :, 64:80], codes[3].float().expand(9, -1))
    with pytest.raises(InputError, match="no image"):
        dream.start({"from": "data", "label": 77})


def test_a_dream_goes_on_with_the_newer_machine_of_a_training(tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.studio.work.dreaming.FRESH", 0.0)
    run = SteeredRun.of(Run.create(tmp_path / "run", recipe()))
    steps = run.go()
    next(steps), next(steps)
    dream = Dream(Told(), tmp_path, "page", {"machine": "run"})
    before = dream.machine.patterns.clone()
    for _ in range(8):
        next(steps)
    run.keep()
    dream.frame()
    assert not torch.equal(dream.machine.patterns, before)
    assert torch.equal(dream.machine.patterns, run.machine("last").patterns)
    steps.close()


def test_the_ladder_tells_which_walker_stands_where(tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.studio.work.dreaming.time.time_ns", lambda: 0)  # the seed
    pipe = Told()
    dream = Dream(pipe, tmp_path, "page", {"machine": "specimen:retrieval"})
    dream.handle({"do": "ladder", "on": True, "rungs": 5})
    seen = set()
    for _ in range(40):
        dream.handle({"do": "seen"})
        dream.frame()
        _, arrays = pipe.all[-1]
        names = arrays["names"][1].tolist()
        assert sorted(names) == list(range(5))
        seen.add(tuple(names))
    assert len(seen) > 1
    assert arrays["rungs"][1].tolist() == sorted(arrays["rungs"][1].tolist())


def test_walkers_keep_their_names_when_they_trade():
    from rapidbm.sampling import tempering

    machine = rb.rbm(6, 5, scale=0.5, seed=0)
    path = rb.ParallelTempering().path(machine)
    start = machine.random(12, rb.stream(0, "x"))
    walkers = tempering.new_walkers(torch.linspace(0, 1, 4, dtype=torch.float64)[None], start)
    for turn in range(6):
        walkers = tempering.tempering_step(
            path, walkers, rb.stream(turn, "turn"), sweeps=0
        )  # nobody moves
    assert not torch.equal(walkers.names[0], torch.arange(12))
    assert torch.equal(walkers.spins[0], start[0, walkers.names[0]])


# -- progress -----------------------------------------------------------------------------------------


def test_progress_is_told_to_a_function_and_shown_nowhere(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("rapidbm.progress.clock", lambda: now[0])
    told = []
    with telling(lambda line, share: told.append((line, share))), watch("work", 4) as tick:
        for _ in range(4):
            now[0] += 1.0
            tick()
    assert [share for _, share in told] == [0.25, 0.5, 0.75, 1.0]
    assert told[0][0].startswith("work: 1 of 4 done")
    assert capsys.readouterr().err == ""
    with watch("work", 4) as tick:  # and no more: RAPIDBM_PROGRESS is off in tests
        now[0] += 99.0
        tick()
    assert len(told) == 4


# -- names, notes, and runs that are deleted ----------------------------------------------------------


@pytest.fixture
def runs(tmp_path):
    recipe = Recipe.made("bars4", {"hidden": (4,), "patterns": 2, "epochs": 1, "replicas": 1})
    for name in ("one", "sweep/two"):
        Run.create(tmp_path / name, recipe)
    return Queries(tmp_path)


def titles(desk):
    return {run["name"]: (run["title"], run["note"]) for run in desk.runs({})[0]["runs"]}


def test_a_run_is_given_a_name_and_a_note_and_keeps_its_folder(runs):
    runs.label({"run": "one", "title": "  The best <b> ", "note": "kept\nfor later"})
    assert titles(runs) == {"one": ("The best <b>", "kept\nfor later"), "sweep/two": ("sweep/two", "")}
    assert {run["title"] for run in runs.machines({})[0]["runs"]} == {"The best <b>", "sweep/two"}
    assert json.loads((runs.folder / "one" / "run.json").read_text())["recipe"]["dataset"] == "bars4"
    runs.label({"run": "one", "title": "", "note": ""})
    assert titles(runs)["one"] == ("one", "")
    assert not (runs.folder / "one" / "label.json").exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"run": "one", "title": "x" * 201},
        {"run": "one", "note": 7},
        {"run": "../one", "title": "x"},
        {"run": "none", "title": "x"},
    ],
)
def test_labels_that_are_none_and_runs_that_are_not_there(runs, asked):
    with pytest.raises(InputError):
        runs.label(asked)


def test_a_label_that_somebody_else_wrote_is_passed_over(runs):
    (runs.folder / "one" / "label.json").write_text('{"title": ["x"]}')
    assert titles(runs)["one"] == ("one", "")
    (runs.folder / "one" / "label.json").unlink()
    (runs.folder / "elsewhere.json").write_text('{"title": "x"}')
    (runs.folder / "one" / "label.json").symlink_to(runs.folder / "elsewhere.json")
    assert titles(runs)["one"] == ("one", "")
    with pytest.raises(InputError, match="leads out"):
        runs.label({"run": "one", "title": "y"})


def test_a_run_is_deleted_whole_and_nothing_else(runs):
    runs.delete({"run": "one"})
    assert set(titles(runs)) == {"sweep/two"}
    assert [path.name for path in runs.folder.iterdir()] == ["sweep"]
    for wrong in ("sweep", "../one", "", "one"):
        with pytest.raises(InputError):
            runs.delete({"run": wrong})
    (runs.folder / "link").symlink_to(runs.folder / "sweep" / "two")
    with pytest.raises(InputError, match="is a link"):
        runs.delete({"run": "link"})
    shutil.copytree(runs.folder / "sweep" / "two", runs.folder / "sweep" / "two" / "inner")
    with pytest.raises(InputError, match="1 other runs below it"):
        runs.delete({"run": "sweep/two"})
    assert set(titles(runs)) >= {"sweep/two"}


def test_a_run_in_which_somebody_works_is_not_deleted(runs):
    with locked(runs.folder / "one", "training"), pytest.raises(InputError, match="another process"):
        runs.delete({"run": "one"})
    assert "one" in titles(runs)

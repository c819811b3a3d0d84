"""The benchmarks: every workload in small, the protocol of the peers, the tables; nothing timed is judged."""

import importlib.util
import io
import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from selection import quick

import linsolve as ls
from benchmarks import __main__ as benchmarks_main
from benchmarks import (
    busy,
    floors,
    growth,
    history,
    markdown,
    networks,
    ours,
    peers,
    peers_scipy,
    small_calls,
    speed,
    speed_table,
    throughput,
    workloads,
)
from benchmarks.timing import Timing, Watch, Way, interleaved, short, unknown
from linsolve.papers.standalone import STANDALONE

# rows that are timed beside measured ones of the same calls; the sums of W8 have tests of their own
TIMED_ONLY = {("W1", "ours, NumPy"), ("W1", "ours, compiled"), ("W6", "eigh"), ("W8", "ours, NumPy")}
TIMED_ONLY |= {("W8", "explicit, NumPy")}


@pytest.mark.parametrize(
    "section",
    quick(
        [name for name in ours.SECTIONS if name != "W7"],
        lambda name: not name.startswith("W4, L = ") or name.endswith("inf"),
    ),
)
def test_every_workload_runs_and_ours_are_right(section):
    ways = ours.SECTIONS[section](True)
    assert any(way.who == "ours, NumPy" for way in ways)
    for way in ways:
        watch = Watch(way)
        assert watch() >= 0
        timed_only = way.error is unknown
        assert not timed_only or way.who.startswith("floor: ") or (section, way.who) in TIMED_ONLY, way
        assert timed_only or watch.error() <= 1e-12, way
    assert section == "W8" or any(way.error is not unknown for way in ways if way.who.startswith("ours"))


def test_processes_that_keep_the_cores_busy_end_with_the_block():
    with busy.busy() as processes:
        assert len(processes) >= 1
        assert all(process.poll() is None for process in processes)
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("way", peers_scipy.ways(True), ids=lambda way: f"{way.workload} {way.who}")
def test_peers_solve_the_same_problems(way):
    watch = Watch(way)
    watch()
    assert watch.error() < 1e-5


@pytest.mark.parametrize("k", quick(range(3), 1))
def test_calls_under_jax_are_right_and_write_into_the_same_memory(k):
    pytest.importorskip("jax")
    from benchmarks import peers_jax

    way = peers_jax.ways(True)[k]
    watch, places = Watch(way), set()
    for _ in range(3):
        watch()
        assert watch.error() <= 1e-12
        places.add(tuple(v.unsafe_buffer_pointer() for v in watch.answer))
    assert len(places) == 1, way


@pytest.mark.parametrize("library", ["diffrax", "heyoka"])
def test_other_peers_solve_the_same_problems_where_they_are_installed(library):
    with peers.Worker(library, small=True) as worker:
        if importlib.util.find_spec(library) is None:
            assert library in worker.absent
            assert worker.ways == []
            return
        assert worker.absent is None
        for k in range(len(worker.ways)):
            assert worker.run(k) > 0
            assert worker.ways[k][0] == "W8" or worker.error(k) <= 1e-5  # W8 is timed only


def test_recorded_commits_are_read_in_order_and_compared_with_the_first(tmp_path):
    columns = ["result", "params", "version"]
    for k, (name, seconds) in enumerate((("b", [2.0, 4.0]), ("a", [1.0, None]))):
        results = {
            "small.Flow.time_trajectory": [seconds, [["'One'", "'Two'"]], "v"],
            "small.track_import": [[0.5], [], "v"],
        }
        found = {"commit_hash": 9 * name, "date": 1000 * (2 - k), "result_columns": columns, "results": results}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    (tmp_path / "machine.json").write_text("{}")
    commits = history.recorded(tmp_path)
    assert [(each.hash, each.date) for each in commits] == [("aaaaaaaaa", 1.0), ("bbbbbbbbb", 2.0)]
    assert history.rows(commits) == [
        ("Flow.trajectory, One", "1 s", "2 s", "2.00"),
        ("Flow.trajectory, Two", "-", "4 s", "1.00"),
        ("import", "500 ms", "500 ms", "1.00"),
    ]


def test_a_check_of_the_history_records_nothing_and_compares_with_the_last_commit(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(
        history, "_asv", lambda *words, config: made.append((words, json.loads(config.read_text()))) or 1
    )
    monkeypatch.setattr(history, "HERE", tmp_path)
    assert history.check() == 1
    (words, config) = made[0]
    assert words == ("continuous", "--factor", "1.3", "--interleave-rounds", history.recorded()[-1].hash, "HEAD")
    assert config["results_dir"] == str(tmp_path / ".asv" / "check")


def test_a_worker_answers_by_lines_and_ends_with_its_input():
    with peers.Worker("scipy", small=True) as worker:
        assert [way[0] for way in worker.ways] == ["W2", "W2", "W3", "W6, one target"]
        assert worker.run(3) > 0
        assert worker.error(3) < 1e-12
    assert worker.process.returncode == 0


def test_a_library_that_cannot_be_imported_is_absent(monkeypatch):
    answers = io.StringIO()
    monkeypatch.setitem(peers.LIBRARIES, "none", "benchmarks.there_is_no_such_module")
    monkeypatch.setattr(sys, "stdout", answers)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    peers.serve("none", True)
    assert "there_is_no_such_module" in json.loads(answers.getvalue())["absent"]


def test_nothing_in_the_package_imports_a_peer():
    sources = (
        path.read_text(encoding="utf-8") for path in __import__("pathlib").Path(ls.__file__).parent.rglob("*.py")
    )
    for text in sources:
        for name in ("diffrax", "heyoka", "torchdiffeq", "neural_tangents"):
            assert f"import {name}" not in text


# the problems


def test_the_kernel_is_exact():
    problem = workloads.kernel(11)
    n, signs = 12, problem.signs.astype(int)
    assert np.array_equal(signs @ signs.T, n * np.eye(n, dtype=int))
    for i in range(n):
        for j in range(n):
            weights = [Fraction(float(v)) / n for v in problem.values]
            exact = sum(w * int(a) * int(b) for w, a, b in zip(weights, signs[:, i], signs[:, j], strict=True))
            assert Fraction(float(problem.matrix[i, j])) == pytest.approx(exact, abs=2.0**-45)
    assert np.array_equal(problem.matrix, problem.matrix.T)


def test_errors_are_seen():
    problem = workloads.modes(30, 8)
    a = np.asarray(problem.flow(problem.t, problem.a0)["a"])
    assert workloads.error_of_modes(problem, a) < 1e-14
    assert workloads.error_of_modes(problem, a * (1 + 1e-10)) > 0.9e-10
    kernel = workloads.kernel(11)
    f = ls.FrozenKernel(kernel.matrix, kernel.y)(kernel.t, 0 * kernel.y)["f"]
    assert kernel.error(f) < 1e-14
    assert kernel.error(f + 1e-9) > 1e-11
    nets = workloads.networks(2, 10, 8)
    flow, z0 = nets.of_weights()
    traj = flow(nets.t, z0)
    found = {name: np.asarray(traj[name]) for name in nets.names}
    assert workloads.error_of_networks(nets, found) < 1e-12
    assert workloads.error_of_networks(nets, found | {"ntk": found["ntk"] * (1 + 1e-6)}) > 1e-7


def test_floors_do_their_work():
    out, given = np.zeros((10, 100)), np.arange(1000.0)
    floors.fill(out)()
    assert (out == 1).all()
    assert sorted(floors.read(given, given[::-1].copy())())[-2:] == [999, 999]
    floors.triad(1000)()
    floors.product(3, 4, 5)()


# turns and tables


def test_calls_take_turns_and_the_first_round_warms_up():
    order, slow = [], iter([100.0, 1.0, 3.0, 2.0])

    def first():
        order.append("first")
        return next(slow)

    def second():
        order.append("second")
        return 5.0

    assert interleaved({"first": first, "second": second}, 3) == {"first": 2.0, "second": 5.0}
    assert order == ["first", "second"] * 4


def test_a_watch_scales_and_takes_told_seconds():
    assert Watch(Way("W", "who", lambda: 0.5, 4, told=True))() == 2.0


def test_times_are_short():
    assert [short(x) for x in (12.34, 0.01234, 2e-6, 3e-9, math.nan)] == ["12.3 s", "12.3 ms", "2 us", "3 ns", "absent"]


MEASURED = [
    Timing("W1", "ours, NumPy", 0.1, 1e-16),
    Timing("W1", "floor: fill", 0.02),
    Timing("W1", "ours, JAX", 0.4, 1e-16),
    Timing("W2", "heyoka, 1e-15", 20.0, 1e-15, "few | scaled"),
    Timing("W2", "diffrax Tsit5, 1e-04", 1.0, 1e-2),
    Timing("W2", "diffrax Tsit5, 1e-07", 120.0, 1e-7),
    Timing("absent", "torchdiffeq", math.nan, math.nan, "no CPU build"),
]


def test_reach_is_judged_by_answers_that_are_good():
    found = {
        (reach.workload, reach.who, reach.other): (other, ratio) for reach, _, other, ratio in speed.judged(MEASURED)
    }
    assert found["W1", "ours, NumPy", "floor: fill"][1] == pytest.approx(5)
    other, ratio = found["W1", "ours", "diffrax"]
    assert other.error == 1e-7
    assert ratio == pytest.approx(1 / 1200)
    assert math.isnan(found["W1", "ours, compiled", "floor: fill"][1])
    assert math.isnan(found["W8", "ours, NumPy", "explicit"][1])


def test_the_tables_say_what_was_measured_and_what_is_absent(tmp_path):
    text = speed_table.text(MEASURED)
    assert (
        "| W1 | 100 ms (1e-16) | - | 400 ms (1e-16) | fill: 20 ms | 5 | - | 20 | heyoka, 1e-15: 20 s (1e-15) | 200 |"
        in text
    )
    assert "| W1: ours, NumPy | floor: fill | <= 9 | 5 |\n" in text
    assert "| W1: ours, NumPy | heyoka, 1e-15 | <= 1/150 | 1/200 |\n" in text
    assert "| W1: ours, compiled | floor: fill | <= 2 | - |\n" in text
    assert "| absent | torchdiffeq | absent |  | no CPU build |" in text
    assert r"few \| scaled" in text
    speed.write(MEASURED, text, tmp_path / "out")
    assert (tmp_path / "out" / "speed.md").read_text(encoding="utf-8") == text + "\n"
    kept = json.loads((tmp_path / "out" / "speed.json").read_text(encoding="utf-8"))["timings"]
    assert kept[0] == {"workload": "W1", "who": "ours, NumPy", "seconds": 0.1, "error": 1e-16, "remark": ""}
    assert kept[-1]["seconds"] is None
    assert (tmp_path / "out" / "speed.png").stat().st_size > 10_000


def test_a_ratio_above_its_target_is_reported():
    slow = [t._replace(seconds=1.0) if t.who == "ours, NumPy" else t for t in MEASURED]
    assert "| W1: ours, NumPy | floor: fill | <= 9 | 50 |\n" in speed_table.text(slow)


def test_parts_of_our_time_are_in_the_published_tables():
    published = (Path(__file__).parents[2] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    parts = [({reach.workload, reach.against}, part) for reach in speed.REACH for part in reach.parts]
    assert len(parts) > 10
    for names, part in parts:
        assert any(f"\n| {workload} | {part}" in published for workload in names)


def test_tables_go_between_their_markers_or_nowhere(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("a\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nb\n", encoding="utf-8")
    markdown.write(path, "speed", "new")
    assert path.read_text(encoding="utf-8") == "a\n<!-- speed: begin -->\nnew\n<!-- speed: end -->\nb\n"
    with pytest.raises(SystemExit, match="no place marked 'other'"):
        markdown.write(path, "other", "new")


@pytest.mark.exhaustive
def test_random_networks_take_the_right_route_and_are_right():
    kinds = ("single layer", "white inputs", "aligned, moved by 1e-6", "biases, generic", "last bias, data on a line")
    for kind, count, wrong, beyond, *errors in networks.rows(1, kinds):
        assert (count, wrong, beyond) == (1, 0, 0), kind
        assert max(errors) <= 1e-8, kind


@pytest.mark.parametrize("name", quick(list(ls.flows.WHERE), lambda name: name in ("BlockKernel", "TwoLayer")))
def test_the_ways_of_a_small_call_give_the_same_state(name):
    cls = getattr(ls, name)
    ways = small_calls.calls(cls, 3)
    assert ("formula" in ways) == (name in STANDALONE)
    ours = ways["ours"]()
    for who, tolerance in (("closed form", 0.0), ("new start", 1e-9), ("formula", 1e-11), ("solve_ivp", 1e-5)):
        for value, other in zip(ours, ways[who]() if who in ways else ours, strict=True):
            np.testing.assert_allclose(
                np.broadcast_to(other, value.shape), value, rtol=0, atol=tolerance * np.abs(value).max()
            )


def test_exponents_are_those_of_the_sizes_and_are_drawn(tmp_path):
    sizes = (10, 20, 40, 80)
    assert growth.exponent(sizes, [3 * n**2.5 for n in sizes]) == pytest.approx(2.5)
    assert growth.exponent(sizes, [1e9, 20, 40, 80]) == pytest.approx(1)  # the smallest size is not fitted
    few = [each._replace(sizes=each.sizes[2:]) for each in growth.GROWTHS[:2]]  # all evaluated in blocks
    found = [(each, growth.measure(each)) for each in few]
    assert all(peak > 8 * 16 * n for each, cost in found for n, peak in zip(each.sizes, cost.peaks, strict=True))
    for row in growth.rows(found):
        assert len(row) == len(growth.HEAD)
        assert row[2] == "16,384 to 262,144"
        assert abs(float(row[7]) - float(row[8])) <= 0.1  # memory is exact, times are not judged
    growth.draw(found, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_every_measurement_has_its_place_in_the_results():
    text = (Path(ls.__file__).parents[1] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert [name for name in benchmarks_main.MEASUREMENTS if f"<!-- {name}: begin -->" not in text] == []


def test_the_least_times_count_every_kind_of_instruction(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(throughput, "REPEATS", 100)
    found = list(throughput.rows(members=2000))
    assert all(len(row) == len(throughput.HEAD) for row in found)
    once = next(row for row in found if row[:2] == ("W1", "every time"))
    products, sums, divisions, roots = map(int, once[2:6])
    assert 15 <= products <= 40  # a polynomial of ten coefficients, and its argument
    assert 5 <= sums <= 30
    assert (divisions, roots) == (1, 0)
    assert {row[1] for row in found if row[0] == "W4, L = 3"} == {"member", "every time", "tail", "head", "sum"}
    assert throughput.shares(workloads.deep_modes(3, 2), np.array([[0.0], [np.inf]])) == {"head": 0.5, "tail": 0.5}


def test_a_row_of_small_calls_has_a_ratio_for_each_peer():
    (row,) = small_calls.rows(["BalancedMode"], rounds=1)
    assert len(row) == len(small_calls.HEAD)
    assert all(float(row[k]) > 0 for k in (4, 5, 9, 10))


def test_a_bad_name_and_a_file_without_markers_end_before_any_measurement(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmarks_main, "MEASUREMENTS", {"starts": lambda: pytest.fail("measured")})
    (tmp_path / "bare.md").write_text("", encoding="utf-8")
    for given, message in (
        (["nope"], "NAME = nope is unknown; choose from starts"),
        (["starts", "--write", str(tmp_path / "none" / "x.md")], "cannot be read"),
        (["starts", "--write", str(tmp_path / "bare.md")], "has no place marked 'starts'"),
    ):
        monkeypatch.setattr("sys.argv", ["benchmarks", *given])
        with pytest.raises(SystemExit) as ended:
            benchmarks_main.main()
        assert message in f"{ended.value}{capsys.readouterr().err}"

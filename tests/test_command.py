#!/usr/bin/env python3
"""The command `ringlet` as a user runs it: exit statuses, messages, columns. Prints TAP.

usage: test_command.py RINGLET SOURCE_ROOT
"""

import csv
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

RINGLET, ROOT = sys.argv[1], Path(sys.argv[2])
MACHINES = ROOT / "machines"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Run:
    def __init__(self, *arguments, stdout=subprocess.PIPE):
        done = subprocess.run([RINGLET, *map(str, arguments)], stdout=stdout, text=True,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=100)
        self.status, self.out, self.err = done.returncode, done.stdout or "", done.stderr
        self.rows = [line.split() for line in self.out.split("\n") if line and line[0] != "#"]

    def expect(self, status, *, out=(), err=()):
        assert self.status == status, f"status {self.status}: {self.err}{self.out}"
        for text in [out] if isinstance(out, str) else out:
            assert text in self.out, f"no {text!r} in {self.out}"
        for text in [err] if isinstance(err, str) else err:
            assert text in self.err, f"no {text!r} in {self.err}"
        return self


def bench(*arguments, status=0):
    return Run("bench", "--backend", "emulated", *arguments).expect(status)


def assert_right(run, sizes):
    """Every row has the columns of all_reduce_perf and is consistent; results were checked."""
    assert [int(row[0]) for row in run.rows] == sizes, run.out
    for row in run.rows:
        assert len(row) == 13, row
        size, count = int(row[0]), int(row[1])
        assert row[2] == "float" and row[4] == "-1" and count <= size // 4, row
        for at in 5, 9:
            time, algbw = float(row[at]), float(row[at + 1])
            assert row[at + 3] == "0", row
            if time:
                assert abs(algbw - size / time / 1e3) <= 0.006 + algbw * 0.01, row
    assert "# Out of bounds values : 0 OK\n" in run.out, run.out
    assert re.search(r"^# Avg bus bandwidth    : [0-9.e+-]+$", run.out, re.M), run.out


@test
def without_arguments_and_help():
    Run().expect(2, err="Usage: ringlet COMMAND")
    for word in "--help", "-h", "help":
        assert not Run(word).expect(0, out=["bench", "info", "Exit status"]).err
    version = Run("--version").expect(0).out
    assert re.fullmatch(r"ringlet \d+\.\d+\.\d+\n", version), version
    text = Run("bench", "--help").expect(0, out=["Usage: ringlet bench", "--minbytes SIZE"]).out
    assert Run("help", "bench").expect(0).out == text
    Run("info", "--help").expect(0, out="Usage: ringlet info")


@test
def unknown_commands_and_options():
    for words, message in [
            (["bnech"], "unknown command 'bnech'; the nearest is 'bench'"),
            (["inf"], "the nearest is 'info'"),
            (["help", "banch"], "the nearest is 'bench'"),
            (["--versoin"], "unknown option '--versoin'; the nearest is '--version'"),
            (["bench", "--minbyte", "8"], "unknown option --minbyte; the nearest is --minbytes"),
            (["bench", "--rank=3"], "the nearest is --ranks"),
            (["bench", "-B", "8"], "unknown option -B; the nearest is -b"),
            (["bench", "-b"], "--minbytes needs a value"),
            (["bench", "-b", "4Q"], "'4Q' is not a size"),
            (["bench", "-f", "1"], "--stepfactor: 1 is not between"),
            (["bench", "--ranks", "0"], "--ranks: 0 is not between 1 and 1024"),
            (["bench", "--ranks", "1025"], "--ranks: 1025 is not between 1 and 1024"),
            (["bench", "--rings", "65"], "--rings: 65 is not between 0 and 64"),
            (["bench", "--slices", "4097"], "--slices: 4097 is not between 0 and 4096"),
            (["bench", "--scratch", "255"], "--scratch: 255 is not 0 or between 256 and 4T"),
            (["bench", "-e", "9" * 30], f"--maxbytes: {'9' * 30} is too large; the most is 4T\n"),
            (["bench", "--seed", 2 ** 64], f"is too large; the most is {2 ** 64 - 1}\n"),
            (["bench", "--", "-v"], "unexpected argument '-v' behind --"),
            (["info", "--machine", "F"], "unknown option --machine\n"),
            (["xyz"], "unknown command 'xyz'\n"),
            (["bench", "--algorithm", "tree"], "'tree' is none of auto, ring, host"),
            (["bench", "--shape", "3"], "'3' is none of 1, 2, both"),
            (["bench", "-d", "float8"], "'float8' is none of float32, "),
            (["bench", "-o", "xor"], "'xor' is none of sum, prod, min, max, avg, all"),
            (["bench", "-r", "4", "--ranks", "4"], "--root 4: there are 4 ranks"),
            (["bench", "--plot-y", "speed"], "'speed' is none of algbw, busbw, time"),
            (["bench", "8M"], "unexpected argument '8M'"),
            (["bench", "-b", "2M", "-e", "1M"], "--maxbytes is less than --minbytes"),
            (["bench", "-f", "2", "-i", "8"], "exclude each other"),
            (["bench", "--backend", "cuda", "--machine", "x"], "--machine is for emulated"),
            (["bench", "--machine", MACHINES / "hgx-h200-2.txt", "-g", "3"], "there are 2 devices"),
            (["info", "--all"], "unknown option --all")]:
        run = Run(*words).expect(2, err=[message, "try 'ringlet"])
        assert run.out == "", run.out


@test
def plain_bench_on_emulated_devices():
    run = bench()
    assert_right(run, [8 * 2 ** i for i in range(20)])
    for text in "TIMES ARE MODELLED", "'4 x H200 (NV18)'", "4 ranks on 4 EMULATED devices":
        assert text in run.out, run.out
    for row in run.rows:
        busbw, algbw = float(row[7]), float(row[6])
        assert abs(busbw - algbw * 1.5) <= 0.01 + busbw * 0.01, row
    assert run.err == "", run.err


@test
def modelled_times_are_the_same_every_time():
    arguments = "--machine", MACHINES / "four-nvlink-partial.txt", "-b", "64K", "-e", "1M"
    first, second = bench(*arguments), bench(*arguments)
    assert first.rows and first.rows == second.rows, first.out + second.out


@test
def sizes():
    assert_right(bench("-b", 4, "-e", 40, "-i", 12), [4, 16, 28, 40])
    assert_right(bench("-b", "1K", "-e", "64K", "-f", 8), [1 << 10, 1 << 13, 1 << 16])
    assert_right(bench("-b", 0, "-e", 16), [0, 4, 8, 16])
    assert_right(bench("-b", 10, "-e", 10), [8])
    assert_right(bench("-b", "8M", "--ranks", 2), [8 << 20])


@test
def the_library_takes_the_limits():
    small = "-b", "1K", "-e", "1K", "-c", 0
    for words in (["--rings", 64], ["--slices", 4096], ["--scratch", 256], ["--scratch", 0],
                  ["-vv"], ["--"]):
        bench(*small, *words)
    data = json.loads(bench(*small, "--seed", 2 ** 64 - 1, "-J", "-").out)
    assert data["options"]["seed"] == 2 ** 64 - 1, data["options"]


@test
def ranks_and_machines():
    for ranks in 1, 2, 3, 5, 8, 16:
        run = bench("--ranks", ranks, "-b", 20, "-e", "40K", "-f", 45)
        assert_right(run, [20, 900, 40500])
        assert f" {ranks} ranks on {ranks} EMULATED" in run.out, run.out
    for file in sorted(MACHINES.glob("*.txt")):
        gpus = sum(line.startswith("GPU") for line in file.read_text().split("\n"))
        run = bench("--machine", file, "-b", "100K", "-e", "100K")
        assert_right(run, [102400])
        assert f" {gpus} ranks on {gpus} EMULATED" in run.out, run.out
        assert f"'{file.stem}'" in run.out, run.out
    run = bench("--machine", MACHINES / "hgx-h200-2.txt", "--ranks", 5, "-b", "1M", "-e", "1M")
    assert_right(run, [1 << 20])
    assert " 5 ranks on 2 EMULATED" in run.out, run.out


@test
def collectives():
    for collective, operation in ("reduce-scatter", "sum"), ("all-gather", "none"):
        run = bench("--collective", collective, "--ranks", 3, "-b", 40, "-e", 4000, "-f", 100)
        assert_right(run, [36, 3996])
        assert [(row[1], row[3]) for row in run.rows] == [("3", operation), ("333", operation)]
    run = bench("--collective", "all-gather", "--ranks", 2, "-b", "1M", "-e", "1M")
    assert abs(float(run.rows[0][7]) - float(run.rows[0][6]) / 2) < 0.02, run.out


@test
def algorithms_and_staging_cost_what_they_should():
    size = "-b", "512K", "-e", "512K"
    times = {}
    for name, options in {"ring": ["--algorithm", "ring"], "host": ["--algorithm", "host"],
                          "staged": ["--no-p2p"], "small": ["--scratch", "16K"],
                          "two rings": ["--rings", 2, "--slices", 4]}.items():
        run = bench(*size, *options, "--verbose")
        assert "0 OK" in run.out, run.out
        chosen = "asked for" if "--algorithm" in options else "[^)]+"
        assert re.search(rf"^#   ran: algorithm [a-z-]+ \({chosen}\), r", run.out, re.M), run.out
        times[name] = float(run.rows[0][5])
    assert times["ring"] < times["staged"], times
    assert times["ring"] < times["host"], times


@test
def both_shapes_beside_each_other():
    run = bench("--shape", "both", "-b", "64K", "-e", "64K")
    assert len(run.rows) == 1 and len(run.rows[0]) == 17, run.out
    assert abs(float(run.rows[0][13]) - float(run.rows[0][5])) < float(run.rows[0][5]), run.out
    assert_right(bench("--shape", 1, "-b", "64K", "-e", "64K"), [65536])


@test
def what_is_not_there_is_said():
    run = bench("--link", "--peer", "nccl", "-b", 8, "-e", 8)
    assert "# --link: N/A, " in run.out and "# --peer nccl: N/A, " in run.out, run.out
    assert run.rows[0].count("N/A") == 2 + 3 + 6, run.out
    assert "0 OK" in run.out
    run = bench("-c", 0, "-b", 8, "-e", 8)
    assert run.rows[0].count("N/A") == 2, run.out
    assert "# Out of bounds values : N/A, the results were not checked\n" in run.out, run.out
    assert " OK" not in run.out, run.out
    assert json.loads(bench("-c", 0, "-b", 8, "-e", 8, "-J", "-").out)["wrong"] is None


NCCL_NAMES = {"float16": "half", "float32": "float", "float64": "double"}
NAN = re.compile(r"\b(nan|inf)\b", re.I)


def no_constant(text):
    raise AssertionError(f"{text} is no JSON")


def read_json(path):
    return json.loads(Path(path).read_text(), parse_constant=no_constant)


def read_csv(path):
    return list(csv.DictReader(Path(path).read_text().splitlines()))


def assert_same_rows(table, rows):
    """A line of the table has two rows of the files: out of place and in place."""
    by_key = {}
    for row in rows:
        key = (row["bytes"], row["type"], row["op"], row["algorithm_asked"], row["in_place"])
        assert key not in by_key, key
        by_key[key] = row
    assert len(by_key) == 2 * len(table), (len(by_key), len(table))
    types = {NCCL_NAMES.get(row["type"], row["type"]): row["type"] for row in rows}
    for line in table:
        for place in 0, 1:
            algorithm = line[13] if len(line) > 13 else rows[0]["algorithm_asked"]
            row = by_key[int(line[0]), types[line[2]], line[3], algorithm, bool(place)]
            at = 5 + 4 * place
            assert row["count"] == int(line[1]) and row["wrong"] == int(line[at + 3]) == 0, row
            assert abs(row["time_us"] - float(line[at])) <= 0.006 + row["time_us"] * 0.001, row
            assert abs(row["algbw_gbps"] - float(line[at + 1])) <= 0.006, (row, line)
            assert abs(row["busbw_gbps"] - float(line[at + 2])) <= 0.006, (row, line)


def assert_typed(row):
    assert isinstance(row["in_place"], bool) and row["modelled"] is True, row
    assert all(isinstance(row[name], int) for name in
               ("bytes", "count", "ranks", "rings", "slices", "wrong", "shape", "operations")), row
    assert all(isinstance(row[name], float) for name in
               ("time_us", "time_min_us", "time_max_us", "algbw_gbps", "busbw_gbps")), row
    assert row["why"] == "asked for", row
    assert row["time_min_us"] <= row["time_us"] <= row["time_max_us"], row


def csv_value(text, example):
    if text == "":
        return None
    return bool(int(text)) if isinstance(example, bool) else type(example)(text)


@test
def json_and_csv_say_what_the_table_says():
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / 'a "b"\n.json', Path(folder) / "c.csv"
        run = bench("--algorithm", "all", "-b", 0, "-e", "64K", "-f", 32, "--json", first, "--csv",
                    second)
        data, flat = read_json(first), read_csv(second)
        assert os.listdir(folder) and len(os.listdir(folder)) == 2, os.listdir(folder)
    assert data["schema_version"] == 1 and data["modelled"] is True, data
    assert data["command"][:2] == ["ringlet", "bench"] and str(first) in data["command"], data
    assert data["ringlet_version"] == Run("--version").out.split()[1], data
    assert data["options"]["maxbytes"] == 65536 and data["options"]["ranks"] == 4, data
    assert len(data["devices"]) == data["ranks"] == 4 and data["devices"][3]["rank"] == 3, data
    assert all(device["memory_bytes"] > 0 for device in data["devices"]), data
    assert "TERM" not in str(data) and "environment" not in data, data
    asked = {row["algorithm_asked"] for row in data["rows"]}
    assert {"ring", "host"} <= asked and "auto" not in asked and len(asked) >= 2, asked
    sizes = sorted({row["bytes"] for row in data["rows"]})
    assert sizes == [0, 4, 128, 4096], sizes
    assert_same_rows(run.rows, data["rows"])
    for row, cells in zip(data["rows"], flat, strict=True):
        assert_typed(row)
        assert list(row) == list(cells), (list(row), list(cells))
        for name, value in row.items():
            assert csv_value(cells[name], value) == value, (name, value, cells[name])
    average = sum(row["busbw_gbps"] for row in data["rows"]) / len(data["rows"])
    assert abs(average - data["average_busbw_gbps"]) < 1e-4 and data["wrong"] == 0, data


@test
def types_and_operations():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.json"
        for collective, has_op in (("all-reduce", True), ("all-gather", False),
                                   ("broadcast", False)):
            run = bench("--collective", collective, "-d", "all", "-o", "all", "--ranks", 3, "-b",
                        600, "-e", 600, "-J", file)
            rows = read_json(file)["rows"]
            assert_same_rows(run.rows, rows)
            pairs = {(row["type"], row["op"]) for row in rows}
            missing = set(re.findall(r"^# \S+ of (\w+), (\w+): N/A, ", run.out, re.M))
            assert not pairs & missing, pairs & missing
            assert len(pairs | missing) == (50 if has_op else 10), pairs | missing
            assert {op for _, op in pairs | missing} == (
                {"sum", "prod", "min", "max", "avg"} if has_op else {"none"})
            assert "# Out of bounds values : 0 OK" in run.out, run.out
    for name, nccl in NCCL_NAMES.items():
        arguments = "--collective", "all-gather", "-b", 96, "-e", 96, "-d"
        assert bench(*arguments, nccl).rows == bench(*arguments, name).rows
    run = bench("--collective", "broadcast", "-r", 2, "-d", "int8", "-b", 7, "-e", 7)
    assert run.rows[0][:5] == ["7", "7", "int8", "none", "2"], run.out


@test
def percentiles_and_chains():
    run = bench("--percentiles", "-n", 5, "-b", "4K", "-e", "4K", "--csv", "-")
    row = next(csv.DictReader(run.out.splitlines()))
    assert row["operations"] == "5", row
    values = [float(row[name]) for name in ("p50_us", "p90_us", "p99_us", "longest_us")]
    assert values == sorted(values) and values[0] > 0, row
    table = [line.split() for line in run.err.split("\n") if line and line[0] != "#"]
    assert len(table[0]) == 13 + 8 and "each on its own" in run.err, run.err
    assert abs(float(table[0][13]) - values[0]) < 0.006, run.err
    run = bench("--chain", "-n", 50, "-b", "4K", "-e", "8K", "--csv", "-")
    assert [row["in_place"] for row in csv.DictReader(run.out.splitlines())] == ["1", "1"], run.out
    assert "A chain" in run.err and run.err.count("N/A     N/A     N/A    N/A") == 2, run.err


def read_svg(path):
    root = ElementTree.parse(path).getroot()
    name = "{http://www.w3.org/2000/svg}"
    texts = {}
    for text in root.iter(name + "text"):
        texts.setdefault(text.get("class"), []).append("".join(text.itertext()))
    series = [g for g in root.iter(name + "g") if g.get("class") == "series"]
    return texts, [g.find(name + "title").text for g in series], [
        sum(path.get("class").startswith("m ") for path in g.iter(name + "path")) for g in series]


@test
def charts():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.svg"
        for what, title in ("algbw", "algorithm bandwidth in GB/s"), (
                "busbw", "bus bandwidth in GB/s"), ("time", "time of one operation"):
            run = bench("--algorithm", "all", "-b", "1K", "-e", "64K", "-f", 4, "--plot", file,
                        "--plot-y", what)
            texts, series, markers = read_svg(file)
            asked = sorted({row[13] for row in run.rows})
            assert sorted(series) == sorted(f"{name}, {place}" for name in asked
                                            for place in ("in place", "out of place")), series
            assert texts["entry"] == series[::-1] and markers == [4] * len(series), (texts, markers)
            assert texts["title"] == ["all-reduce of float32, sum"], texts
            assert title in texts["axis"][1], texts
            assert "4 x H200 (NV18)" in texts["soft"][0], texts
            assert "modelled times, not measured" in texts["soft"][0], texts
            assert "1 KiB" in texts["soft"] and "64 KiB" in texts["soft"], texts
            assert not NAN.search(file.read_text())
        again = bench("--algorithm", "all", "-b", "1K", "-e", "64K", "-f", 4, "--plot", "-",
                      "--plot-y", "time")
        assert again.out == file.read_text(), "the same run gives the same chart"
        bench("-b", 0, "-e", 0, "--plot", file, "--plot-y", "time")
        assert read_svg(file)[2] == [0, 0] and not NAN.search(file.read_text())
        bench("--shape", "both", "-c", 0, "-b", "1K", "-e", "1K", "--plot", file)
        assert read_svg(file)[0]["entry"] == [
            "a thread a rank, out of place", "a thread a rank, in place",
            "one thread, out of place", "one thread, in place"]


@test
def files_that_cannot_be_written():
    small = "-b", 8, "-e", 8
    with tempfile.TemporaryDirectory() as folder:
        for option in "--json", "--csv", "--plot":
            for path, why in [(Path(folder) / "none" / "a", "No such file or directory"),
                              (folder, "Is a directory"), ("", "No such file"),
                              ("/proc/self/status/a", "Not a directory"),
                              ("/dev/full", "No space")]:
                run = Run("bench", *small, option, path).expect(1, err=["cannot write", why])
                assert str(path) in run.err, run.err
                assert bool(run.rows) == (path == "/dev/full"), "known before anything is measured"
        assert not os.listdir(folder), os.listdir(folder)
        old = Path(folder) / "old.json"
        old.write_text("old")
        Run("bench", *small, "-J", old, "--csv", "/dev/full").expect(1)
        assert read_json(old)["rows"], "what could be written is there as a whole"
        old.write_text("old")
        old.chmod(0o640)
        link = Path(folder) / "link.json"
        link.symlink_to("old.json")
        bench(*small, "-J", link)
        assert link.is_symlink() and read_json(old) and old.stat().st_mode & 0o777 == 0o640
        Run("bench", *small, "--machine", folder, "-J", link).expect(1)
        assert read_json(old), "a run that fails leaves the file alone"
        assert sorted(os.listdir(folder)) == ["link.json", "old.json"], os.listdir(folder)
        same = Path(folder) / "same"
        Run("bench", "-J", same, "--csv", same).expect(2, err="name the same file")
    Run("bench", "-J", "-", "--csv", "-").expect(2, err="only one of --json, --csv and --plot")
    Run("bench", "--csv=-", "--plot=-").expect(2, err="only one of --json, --csv and --plot")
    run = bench(*small, "-J", "-")
    assert json.loads(run.out)["rows"] and "# Out of bounds values : 0 OK" in run.err, run.err
    bench(*small, "-J", "/dev/null")
    assert not Path("/dev/null").is_file()


@test
def progress_is_for_terminals():
    arguments = [RINGLET, "bench", "--backend", "emulated", "-b", "8", "-e", "16"]
    main, terminal = pty.openpty()
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=terminal, timeout=100)
    os.close(terminal)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert "[1/4] all-reduce of 8 bytes, float32, out of place" in shown, shown
    assert "[4/4] all-reduce of 16 bytes, float32, in place" in shown, shown
    assert "\n" not in shown and shown.endswith("\r" + " " * 78 + "\r"), "it is erased"
    assert b"[1/4]" not in done.stdout and done.returncode == 0


@test
def malformed_and_missing_machines():
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.txt"
        for text, place in [("GPU0 GPU1\nGPU0 X NVX\nGPU1 NV1 X\n", "2:8: 'NVX' is no link"),
                            ("", "1:1: no line of GPU names"),
                            ("GPU0 GPU1\nGPU0 X NV1\n", "1:6: GPU1 has a column but no row")]:
            bad.write_text(text)
            run = Run("bench", "--machine", bad).expect(1, err=f"{bad}:{place}")
            assert run.out == "", run.out
        Run("bench", "--machine", Path(folder) / "none").expect(1, err="No such file")
        Run("bench", "--machine", folder).expect(1, err=folder)


@test
def too_much_is_refused():
    for words, needed in (["-b", "1T", "-e", "1T"], 2 * 4 * (2 ** 40 + 1024)), (
            ["-e", "60G", "--ranks", 1024], 2 * 1024 * (60 * 2 ** 30 + 1024)):
        run = Run("bench", "--backend", "emulated", *words).expect(1, err=[
            f" need {needed} bytes", " available; lower --maxbytes or --ranks\n"])
        assert int(re.search(r"this machine has (\d+) \(", run.err)[1]) < needed, run.err
        assert not run.out, run.out


@test
def output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        Run("info", stdout=full).expect(1, err="cannot write the output: No space left on device")
        Run("bench", "-b", 8, "-e", 8, stdout=full).expect(1, err="table: No space left on device")


def plain(roff):
    """The page without fonts and escapes."""
    return re.sub(r"\\f[BRI]|\\[&:]", "", roff).replace("\\-", "-").replace("\\(aq", "'").replace(
        "\\(ga", "`").replace("\\e", "\\")


@test
def man_page():
    page = Run("man").expect(0).out
    assert page.startswith(".TH RINGLET 1 "), page[:80]
    assert page == Run("man").out and Run("--version").out.split()[1] in page.split("\n")[0]
    headings = re.findall(r"^\.SH (.+)$", page, re.M)
    assert headings == ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "ENVIRONMENT",
                        "SEE ALSO"], headings
    for line in page.split("\n"):
        macro = re.match(r"[.'](\S*)", line)
        assert not macro or macro[1] in ("TH", "SH", "SS", "TP", "PP", "B", "nf", "fi"), line
        assert macro or not re.search(r"(?<!\\)-", line), f"a hyphen where a minus is meant: {line}"
    sections = dict(zip(re.findall(r"^\.SS (.+)$", page, re.M),
                        re.split(r"^\.SS .+\n", page, flags=re.M)[1:], strict=True))
    assert sorted(sections) == ["ringlet bench", "ringlet info", "ringlet man"], sections
    for name, text in sections.items():
        shown = Run(*name.split()[1:], "--help").expect(0).out
        words = " ".join(plain(text).split())
        told, table = shown.split("\n\n", 1)[1].split("Options:\n")
        options = re.findall(r"^ +(?:-(\w), )?(--[\w-]+)", table, re.M)
        assert options and options[-1][1] == "--help", shown
        for letter, option in options:
            assert (f"-{letter}, {option}" if letter else option) in words, (option, words)
        for word in (told + table).split():
            assert word in words, (name, word)
    assert plain(page).count("--minbytes SIZE\nsmallest message (default 8)") == 1, page
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, text=True,
                              capture_output=True, check=True)
        assert not done.stderr and "smallest message" in done.stdout, done.stderr
    assert "man" not in Run("--help").out.split("Commands:")[1], "known to who looks here"
    Run("help", "man").expect(0, out="Usage: ringlet man")
    Run("man", "bench").expect(2, err="unexpected argument 'bench'")


@test
def info():
    run = Run("info").expect(0, out=["ringlet ", "CUDA: ", "OpenMP: ", "environment variables",
                                     "timeout 30000 ms", "emulated devices: up to"])
    assert run.err == "", run.err


def main():
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, function in enumerate(TESTS, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"not ok {number} - {name}")
            for line in str(error).split("\n")[:40]:
                print("#", line, flush=True)
    return failed > 0


sys.exit(main())

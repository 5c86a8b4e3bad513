#!/usr/bin/env python3
"""The command `ringlet` as a user runs it: exit statuses, messages, columns. Prints TAP.

usage: test_command.py RINGLET SOURCE_ROOT
"""

import re
import subprocess
import sys
import tempfile
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
            (["--versoin"], "unknown option --versoin; the nearest is --version"),
            (["bench", "--minbyte", "8"], "unknown option --minbyte; the nearest is --minbytes"),
            (["bench", "--rank=3"], "the nearest is --ranks"),
            (["bench", "-B", "8"], "unknown option -B; the nearest is -b"),
            (["bench", "-b"], "--minbytes needs a value"),
            (["bench", "-b", "4Q"], "'4Q' is not a size"),
            (["bench", "-f", "1"], "--stepfactor: 1 is not between"),
            (["bench", "--ranks", "0"], "--ranks: 0 is not between 1 and 4096"),
            (["bench", "--algorithm", "tree"], "'tree' is none of auto, ring, host"),
            (["bench", "--shape", "3"], "'3' is none of 1, 2, both"),
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
    assert_right(run, [8 * 4 ** i for i in range(10)])
    for text in "TIMES ARE MODELLED", "'4 x H200 (NV18)'", "4 ranks on 4 EMULATED devices":
        assert text in run.out, run.out
    for row in run.rows:
        busbw, algbw = float(row[7]), float(row[6])
        assert abs(busbw - algbw * 1.5) <= 0.01 + busbw * 0.01, row
    assert run.err == "", run.err


@test
def modelled_times_are_the_same_every_time():
    arguments = "--machine", MACHINES / "four-nvlink-partial.txt", "-b", "64K"
    first, second = bench(*arguments), bench(*arguments)
    assert first.rows and first.rows == second.rows, first.out + second.out


@test
def sizes():
    assert_right(bench("-b", 4, "-e", 40, "-i", 12), [4, 16, 28, 40])
    assert_right(bench("-b", "1K", "-e", "64K", "-f", 8), [1 << 10, 1 << 13, 1 << 16])
    assert_right(bench("-b", 0, "-e", 16), [0, 4, 16])
    assert_right(bench("-b", 10, "-e", 10), [8])
    assert_right(bench("-b", "8M"), [8 << 20])


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
    size = "-b", "2M", "-e", "2M"
    times = {}
    for name, options in {"ring": ["--algorithm", "ring"], "host": ["--algorithm", "host"],
                          "staged": ["--no-p2p"], "small": ["--scratch", "16K"],
                          "two rings": ["--rings", 2, "--slices", 4]}.items():
        run = bench(*size, *options, "--verbose")
        assert "0 OK" in run.out, run.out
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
    run = Run("bench", "--backend", "emulated", "-b", "1T", "-e", "1T", "--timeout", "5000")
    assert run.status == 1 and run.err.startswith("ringlet bench: "), run.err
    assert not run.rows, run.out


@test
def output_that_cannot_be_written():
    with open("/dev/full", "w") as full:
        Run("info", stdout=full).expect(1, err="cannot write")


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

#!/usr/bin/env python3
"""Whether tools/count_tests.py counts rightly, above all what went wrong. Prints TAP.

usage: test_count.py SOURCE_ROOT
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# What a suite printed, its result, and the counts and words that must come of it.
CASES = [
    ("all passed", "ok 1 - a\nok 2 - b\n1..2\n", "OK", "2 passed, 0 failed", []),
    ("the plan may come first", "1..2\nok 1 - a\nok 2 - b\n", "OK", "2 passed, 0 failed", []),
    ("one failed", "ok 1 - a\nnot ok 2 - b\n# because\n1..2\n", "FAIL", "1 passed, 1 failed",
     ["FAILED gcc: suite: 2 - b", "    # because"]),
    ("one skipped", "ok 1 - a\nok 2 - b # SKIP no GPU\n1..2\n", "OK",
     "1 passed, 0 failed, 1 skipped", ["skipped gcc: suite: no GPU"]),
    ("the whole suite skipped", "1..0 # SKIP no GPU\n", "SKIP", "0 passed, 0 failed, 1 skipped",
     ["skipped gcc: suite: no GPU"]),
    ("an expected failure", "not ok 1 - a # TODO later\n1..1\n", "OK", "0 passed, 0 failed", []),
    ("a crash after tests that passed", "ok 1 - a\n", "ERROR", "1 passed, 1 failed",
     ["FAILED gcc: suite: ERROR, exit status 7", "    last words"]),
    ("a timeout", "", "TIMEOUT", "0 passed, 1 failed",
     ["FAILED gcc: suite: TIMEOUT, exit status 7"]),
    ("a non-zero exit behind tests that passed", "ok 1 - a\n1..1\n", "FAIL",
     "1 passed, 1 failed", []),
    ("fewer tests than planned", "ok 1 - a\n1..2\n", "OK", "1 passed, 1 failed", []),
    ("no plan", "ok 1 - a\n", "OK", "1 passed, 1 failed", []),
    ("nothing printed", "", "OK", "0 passed, 1 failed", ["FAILED gcc: suite: ran no test"]),
    ("no TAP, which meson takes for skipped", "hello\n", "SKIP", "0 passed, 1 failed",
     ["FAILED gcc: suite: ran no test"]),
    ("every test skipped", "ok 1 - a # SKIP no GPU\n1..1\n", "SKIP",
     "0 passed, 0 failed, 1 skipped", []),
    ("a suite that did not run", None, None, "0 passed, 2 failed",
     ["FAILED gcc: suite: did not run", "FAILED gcc: no suite ran"]),
    ("a way that was not built", None, "no build", "0 passed, 1 failed", []),
]


def lay(folder, text, result):
    """A build folder as ./run-tests leaves it."""
    build = folder / "build" / "gcc"
    (build / "meson-info").mkdir(parents=True)
    (build / "meson-logs").mkdir()
    suites = [{"name": "suite", "suite": ["ringlet:fast"]},
              {"name": "left out", "suite": ["ringlet:fast", "ringlet:long"]}]
    (folder / "build/gcc.left_out").write_text("source long\n")
    (build / "meson-info/intro-tests.json").write_text(json.dumps(suites))
    if result != "no build":
        (folder / "build/gcc.built").touch()
    if text is not None:
        run = {"name": "ringlet:fast / suite", "stdout": text, "stderr": "last words\n",
               "result": result, "returncode": 7}
        (build / "meson-logs/testlog.json").write_text(json.dumps(run) + "\n")


def complaints(script, text, result, counts, words):
    with tempfile.TemporaryDirectory() as folder:
        lay(Path(folder), text, result)
        run = subprocess.run([sys.executable, script, "gcc"], cwd=folder, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = run.stdout.rstrip().split("\n")
    if lines[-1] != counts:
        yield f"the last line is '{lines[-1]}', not '{counts}'"
    if run.returncode != (" 0 failed" not in counts):
        yield f"the exit status is {run.returncode}"
    for word in words:
        if word not in lines:
            yield f"no line says '{word}'"


def main():
    script = Path(sys.argv[1]).resolve() / "tools/count_tests.py"
    failed = 0
    for number, (name, *case) in enumerate(CASES, 1):
        found = list(complaints(script, *case))
        failed += bool(found)
        print(f"{'not ok' if found else 'ok'} {number} - {name}")
        for complaint in found:
            print(f"# {complaint}")
    print(f"1..{len(CASES)}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

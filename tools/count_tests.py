#!/usr/bin/env python3
"""Counts the test cases that `meson test` ran in the build folders of ./run-tests, says which
failed and why, and which were skipped and why. The last line is "N passed, N failed[, N skipped]";
the exit status is 1 if any failed. A suite that crashed, timed out, stopped early or never ran
counts as failed.

usage: count_tests.py WAY...          reads build/WAY/
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

GOOD = ("OK", "SKIP", "EXPECTEDFAIL")
TAIL_LINES = 40
CASE = re.compile(r"(not )?ok\b\s*\d*\s*-?\s*([^#]*)(?:#\s*(skip|todo)\S*\s*(.*))?", re.I)
PLAN = re.compile(r"1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?", re.I)


class Count:
    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = Counter()  # by place and reason

    def fail(self, place, text, detail=()):
        self.failed += 1
        print(f"FAILED {place}: {text}")
        for line in detail:
            print(f"    {line}")


def tail(text):
    lines = text.rstrip().split("\n")
    return lines[-TAIL_LINES:] if text.strip() else []


def read_tap(text):
    """(cases, plan, reason): cases as (ok, directive, description, diagnostics, reason), the number
    of cases planned or None, and why the whole suite was skipped or None."""
    cases, plan, reason = [], None, None
    for line in text.split("\n"):
        case = CASE.match(line)
        planned = PLAN.match(line)
        if case:
            directive = (case[3] or "").lower()
            description = line.split(" ", 2)[-1] if case[1] else case[2].strip()
            cases.append((not case[1], directive, description, [], (case[4] or "").strip()))
        elif planned:
            plan = int(planned[1])
            if plan == 0:
                reason = planned[2] or "no reason given"
        elif line.startswith("#") and cases:
            cases[-1][3].append(line)
    return cases, plan, reason


def count_suite(way, run, count):
    name = run["name"].split(" / ")[-1]
    place = f"{way}: {name}"
    cases, plan, reason = read_tap(run.get("stdout") or "")
    failed_before = count.failed
    for ok, directive, description, diagnostics, why in cases:
        if directive == "skip":
            count.skipped[(place, why or "no reason given")] += 1
        elif ok or directive == "todo":
            count.passed += ok
        else:
            count.fail(place, description, diagnostics)

    stderr = run.get("stderr") or ""
    if run["result"] not in GOOD and count.failed == failed_before:
        count.fail(place, f"{run['result']}, exit status {run.get('returncode')}",
                   tail(stderr) or tail(run.get("stdout") or ""))
    elif run["result"] not in GOOD:
        for line in tail(stderr):
            print(f"    {line}")
    elif plan == 0:
        count.skipped[(place, reason)] += 1
    elif plan is None or not cases:
        count.fail(place, "ran no test")
    elif plan != len(cases):
        count.fail(place, f"{plan} tests were planned, {len(cases)} ran")


def expected(folder):
    """Names of the tests that the build has, without those of suites that were left out."""
    tests = json.loads((folder / "meson-info/intro-tests.json").read_text())
    note = Path(f"{folder}.left_out")
    left_out = set(note.read_text().split()) if note.exists() else set()
    return {test["name"] for test in tests
            if not left_out.intersection(suite.split(":")[-1] for suite in test["suite"])}


def count_way(way, count):
    folder = Path("build") / way
    if not Path(f"{folder}.built").exists():
        count.fail(way, f"was not built; see {folder}.log")
        return
    log = folder / "meson-logs/testlog.json"
    seen = set()
    for line in log.read_text().splitlines() if log.exists() else ():
        run = json.loads(line)
        seen.add(run["name"].split(" / ")[-1])
        count_suite(way, run, count)
    for name in sorted(expected(folder) - seen):
        count.fail(f"{way}: {name}", "did not run")
    if not seen:
        count.fail(way, "no suite ran")


def main():
    count = Count()
    print()
    for way in sys.argv[1:]:
        count_way(way, count)
    for (place, reason), times in count.skipped.items():
        print(f"skipped {place}: {reason}" + (f" ({times} tests)" if times > 1 else ""))
    skipped = sum(count.skipped.values())
    tail_of_line = f", {skipped} skipped" if skipped else ""
    print(f"{count.passed} passed, {count.failed} failed{tail_of_line}")
    return count.failed > 0


if __name__ == "__main__":
    sys.exit(main())

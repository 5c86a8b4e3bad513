#!/usr/bin/env python3
"""The rules of docs/architecture.md that can be read off the sources: which folder may include
what, how files open, what a line may hold. Prints TAP. Every rule is first shown small trees that
break it.

usage: test_structure.py SOURCE_ROOT
"""

import posixpath
import re
import sys
from pathlib import Path

PUBLIC = "include"
# What the files of each part may include besides their own part's.
PARTS = {
    "include": set(),
    "kernels": {"include"},
    "base": {"include"},
    "topology": {"include", "base"},
    "plan": {"include", "base", "topology"},
    "device": {"include", "base", "topology", "kernels"},
    "run": {"include", "base", "topology", "plan", "device"},
    "tune": {"include", "base", "topology", "plan"},
    "library": {"include", "base", "topology", "plan", "device", "run", "tune"},
    "client": {"include"},
    "inside": {"include", "client", "base", "topology", "plan", "device", "run", "tune"},
    "examples": {"include"},
}
PARTS["tests"] = set(PARTS)
SEARCH_PATH = ("include", "src", "kernels")
# Of the command, what may look behind the public header: comparison with peers and link ceilings,
# and the subcommands that show the inside.
INSIDE = re.compile(r"bench/(link|peer(_\w+)?|info)\.[ch]$")
CUDA_HEADER = re.compile(
    r"(cu[a-z_]*|nvml|nvtx\w*|nccl\w*|driver_types|vector_types|cooperative_groups|host_defines)\.h"
    r"|(cuda|cub|thrust|nvtx3|crt|cooperative_groups)/.*")
CUDA_FILE = re.compile(r"(src/device/cuda\w*\.[ch]|kernels/.*\.cuh?|tests/test_cuda\w*\.c)$")
SOURCE = re.compile(r"\.(c|h|cu|cuh)$")
SCRIPTS = ("run-*", ".ci/run", "meson.build", "tools/*", "tests/*.sh", "tests/*.py")
COLUMNS = 100


def part_of(path):
    """The part of the dependency rule that a file belongs to, or None."""
    pieces = path.split("/")
    if pieces[0] == "src":
        return pieces[1] if len(pieces) > 2 else "library"
    if pieces[0] == "bench":
        return "inside" if INSIDE.match(path) else "client"
    return pieces[0]


def includes(text):
    """(line number, name, quoted) of each #include."""
    for number, line in enumerate(text.split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
        if found:
            yield number, found[1] or found[2], found[1] is not None


def resolve(files, path, name):
    """The file of the tree that an include means, or None."""
    places = (posixpath.dirname(path),) + SEARCH_PATH
    candidates = [posixpath.normpath(posixpath.join(place, name)) for place in places]
    return next((candidate for candidate in candidates if candidate in files), None)


def check_dependencies(files):
    for path, text in files.items():
        part = part_of(path)
        if part not in PARTS:
            yield f"{path}: belongs to no part that the dependency rule knows"
            continue
        for number, name, quoted in includes(text):
            target = resolve(files, path, name)
            if target is None:
                if quoted:
                    yield f'{path}:{number}: includes "{name}", which is not in the tree'
                continue
            other = part_of(target)
            if other != part and other not in PARTS[part]:
                yield f"{path}:{number}: {part} includes {target}, which is of {other}"
            if path == "src/buckets.c" and other not in (PUBLIC, "base"):
                yield f"{path}:{number}: is to be built on the public header, includes {target}"


def check_cuda_headers(files):
    for path, text in files.items():
        for number, name, _ in includes(text):
            if CUDA_HEADER.fullmatch(name) and not resolve(files, path, name):
                if not CUDA_FILE.match(path):
                    yield f"{path}:{number}: includes the CUDA header {name}"


def check_cuda_switch(files):
    for path, text in files.items():
        if path == "src/device/registry.c":
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if re.match(r"\s*#\s*(el)?if.*\bRINGLET_CUDA\b", line):
                yield f"{path}:{number}: only src/device/registry.c may ask for RINGLET_CUDA"


def check_opening(files):
    for path, text in files.items():
        has_header = path.endswith(".c") and path[:-2] + ".h" in files
        is_suite = path.startswith("tests/test_")  # its name says what it tests
        if not has_header and not is_suite and not re.match(r"\s*(/\*|//)", text):
            yield f"{path}:1: does not open with a comment that says what the file owns"


def check_lines(files):
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS:
                yield f"{path}:{number}: {len(line)} columns, the limit is {COLUMNS}"
            if "\t" in line:
                yield f"{path}:{number}: has a tab"
            if line != line.rstrip():
                yield f"{path}:{number}: ends in blanks"
        if not text.endswith("\n") or text.endswith("\n\n"):
            yield f"{path}: does not end with exactly one newline"


def without_comments_and_strings(text):
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def check_no_exit(files):
    for path, text in files.items():
        if not path.startswith(("src/", "kernels/")):
            continue
        for number, line in enumerate(without_comments_and_strings(text).split("\n"), 1):
            if re.search(r"\b(_?exit|_Exit|abort|quick_exit)\s*\(", line):
                yield f"{path}:{number}: the library ends its caller's process"


def check_environment(files):
    listed = files.get("bench/info.c", "")
    for path, text in files.items():
        for name in re.findall(r'\bgetenv\s*\(\s*"(\w+)"', text):
            if f'"{name}"' not in listed:
                yield f"{path}: reads {name}, which `ringlet info` does not list"


OPEN = "/* x */\n"
# For each rule: its name, the function, and trees, each of which must yield exactly one complaint.
RULES = [
    ("folders include only what lies below them", check_dependencies, [
        {"src/plan/a.c": '#include "device/b.h"\n', "src/device/b.h": ""},
        {"src/tune/a.c": '#include "device/b.h"\n', "src/device/b.h": ""},
        {"src/device/a.c": '#include "plan/b.h"\n', "src/plan/b.h": ""},
        {"src/device/a.c": '#include "../plan/b.h"\n', "src/plan/b.h": ""},
        {"src/base/a.c": '#include "topology/b.h"\n', "src/topology/b.h": ""},
        {"src/topology/a.c": '#include "plan/b.h"\n', "src/plan/b.h": ""},
        {"src/device/a.c": '#include "run/b.h"\n', "src/run/b.h": ""},
        {"src/run/a.c": '#include "comm.h"\n', "src/comm.h": ""},
        {"src/run/a.c": '#include <comm.h>\n', "src/comm.h": ""},
        {"src/comm.c": '#include "reduce.h"\n', "kernels/reduce.h": ""},
        {"kernels/a.cu": '#include "base/b.h"\n', "src/base/b.h": ""},
        {"src/buckets.c": '#include "run/b.h"\n', "src/run/b.h": ""},
        {"bench/bench.c": '#include "device/b.h"\n', "src/device/b.h": ""},
        {"bench/bench.c": '#include "link.h"\n', "bench/link.h": ""},
        {"examples/a.c": '#include "base/b.h"\n', "src/base/b.h": ""},
        {"src/run/a.c": '#include "nowhere.h"\n'},
        {"src/other/a.c": ""},
    ]),
    ("only src/device/cuda* and kernels/ include CUDA headers", check_cuda_headers, [
        {"src/device/registry.c": "#include <cuda_runtime.h>\n"},
        {"src/run/a.c": '#include "cuda.h"\n'},
        {"bench/peer_nccl.c": "#include <nccl.h>\n"},
        {"kernels/reduce.h": "#include <cuda_runtime_api.h>\n"},
    ]),
    ("only the device registry asks for RINGLET_CUDA", check_cuda_switch, [
        {"src/comm.c": "#ifdef RINGLET_CUDA\n"},
        {"bench/main.c": "#if defined(RINGLET_CUDA)\n"},
        {"src/device/device.h": "# elif RINGLET_CUDA\n"},
    ]),
    ("files open by saying what they own", check_opening, [
        {"src/base/a.c": "#include <stdio.h>\n"},
        {"src/base/a.h": "#ifndef A\n"},
        {"kernels/a.cu": "int a;\n"},
    ]),
    (f"lines: {COLUMNS} columns, no tabs, no blanks at the end", check_lines, [
        {"src/base/a.c": "x" * (COLUMNS + 1) + "\n"},
        {"src/base/a.c": "\tx\n"},
        {"src/base/a.c": "x \n"},
        {"src/base/a.c": "x"},
    ]),
    ("the library never ends its caller's process", check_no_exit, [
        {"src/base/a.c": "exit(1);\n"},
        {"src/run/a.c": "    abort ();\n"},
    ]),
    ("`ringlet info` lists every environment variable", check_environment, [
        {"src/base/a.c": 'getenv("RINGLET_X")\n', "bench/info.c": OPEN},
    ]),
]
# What no rule may complain of.
CLEAN = {
    "include/ringlet/ringlet.h": OPEN,
    "kernels/reduce.h": OPEN,
    "kernels/reduce.cu": OPEN + "#include <cuda_runtime.h>\n" + '#include "reduce.h"\n',
    "src/base/status.h": OPEN + '#include "ringlet/ringlet.h"\n',
    "src/base/status.c": '#include "base/status.h"\n\n#include <stdio.h>\n',
    "src/plan/plan.h": OPEN,
    "src/device/device.h": OPEN + '#include "ringlet/ringlet.h"\n// exit(1) "abort()"\n',
    "src/device/registry.c": OPEN + "#ifdef RINGLET_CUDA\n#endif\n",
    "src/device/cuda.c": OPEN + '#include <cuda.h>\n#include "device/device.h"\n'
                              + '#include "reduce.h"\n',
    "src/run/run.c": OPEN + '#include "plan/plan.h"\n#include "device/device.h"\n'
                          + '#include "../base/status.h"\nvoid comm_abort(void);\n',
    "src/comm.c": OPEN + '#include "plan/plan.h"\n#include "ringlet/ringlet.h"\n',
    "bench/bench.h": OPEN,
    "bench/bench.c": '#include "bench.h"\n#include "ringlet/ringlet.h"\n',
    "bench/info.c": OPEN + 'getenv("RINGLET_Y")\n',
    "bench/link.c": OPEN + '#include "device/device.h"\n#include "bench.h"\n',
    "examples/all_reduce.c": OPEN + "#include <ringlet/ringlet.h>\n",
}


def read_tree(root):
    files = {}
    for folder in ("include", "src", "kernels", "bench", "examples", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if SOURCE.search(path.name):
                files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return files


def read_scripts(root):
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for pattern in SCRIPTS for path in sorted(root.glob(pattern)) if path.is_file()}


def main():
    root = Path(sys.argv[1])
    files = read_tree(root)
    results = [("there are sources to read", [] if files else ["none found"])]
    for name, rule, broken in RULES:
        blind = [f"does not see exactly one fault in {tree}: {list(rule(tree))}"
                 for tree in broken if len(list(rule(tree))) != 1]
        blind += [f"complains of a clean tree: {text}" for text in rule(CLEAN)]
        results.append((f"the test itself sees: {name}", blind))
        results.append((name, list(rule(files))))
    results.append(("the lines of scripts too", list(check_lines(read_scripts(root)))))

    for number, (name, complaints) in enumerate(results, 1):
        print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
        for complaint in complaints:
            print(f"# {complaint}")
    print(f"1..{len(results)}")
    return any(complaints for _, complaints in results)


if __name__ == "__main__":
    sys.exit(main())

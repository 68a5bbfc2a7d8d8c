"""The laws, each a function from source text to the list of what breaks it.

They read text, so that a test can feed them a planted violation and see it caught.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = "gossamer"

MAX_LINES = 600

# The parts, from the bottom up. A part may import what stands beside its name here, and nothing else.
BELOW_HOSTS = {
    "core",
    "filters",
    "overlay",
    "consensus",
    "links",
    "transports",
    "announce",
    "security",
    "traces",
    "storage",
    "catalog",
}
HOSTS = {"runtime", "simulator", "analysis", "pipeline"}
TOP = {"cli", "whatif"}
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "filters": {"core"},
    "links": {"core"},
    "transports": {"core"},
    "announce": {"core"},
    "security": {"core"},
    "storage": {"core"},
    "traces": {"core"},
    "overlay": {"core"},
    "consensus": {"core", "overlay"},
    "templates": {"core", "filters", "overlay", "consensus"},
    "catalog": {"core", "transports"},
    "errors": {"core"},
    "template": {"core"},
    "runtime": BELOW_HOSTS,
    "simulator": BELOW_HOSTS,
    "analysis": {"core", "templates"},
    "pipeline": {"core", "analysis", "simulator", "templates"},
    "testing": BELOW_HOSTS | HOSTS | {"templates"},
    "bench": {"core", "runtime", "pipeline"},
    "cli": BELOW_HOSTS | HOSTS | {"whatif", "testing", "bench"},
    "whatif": BELOW_HOSTS | HOSTS | {"templates"},
    "pyspark_gossamer": {"core", "links", "runtime", "storage", "traces"},
}
IMPORT_BY_TABLE = {f"{PACKAGE}.catalog", f"{PACKAGE}.public", f"{PACKAGE}.cli.lazy"}
"""Modules that import what a table of theirs, or an entry point, names."""
PIPELINE_CORE = {f"{PACKAGE}.core.trace", f"{PACKAGE}.core.errors"}
ONLY_MSGSPEC = {"core", "filters", "consensus", "templates"}
"""Parts that import no third party but msgspec."""

NO_IO = ("core", "filters", "links", "overlay", "consensus", "templates", "announce", "analysis")
ARRAYS = ("analysis",)
"""Parts without I/O that may use NumPy, without its dice."""
BANNED_MODULES = frozenset(
    {
        "anyio",
        "asyncio",
        "builtins",
        "concurrent",
        "contextvars",
        "ctypes",
        "datetime",
        "fileinput",
        "ftplib",
        "getpass",
        "glob",
        "http",
        "importlib",
        "io",
        "logging",
        "marshal",
        "mmap",
        "multiprocessing",
        "nt",
        "numpy",
        "os",
        "pathlib",
        "pickle",
        "posix",
        "queue",
        "random",
        "sched",
        "secrets",
        "select",
        "selectors",
        "shelve",
        "shutil",
        "signal",
        "smtplib",
        "socket",
        "socketserver",
        "sqlite3",
        "ssl",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "trio",
        "urllib",
        "uuid",
        "uvloop",
    }
)
BANNED_CALLS = frozenset({"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"})
BANNED_METHODS = frozenset({"utcnow", "today", "monotonic", "perf_counter", "time_ns", "urandom", "getenv"})
BANNED_NAMES = re.compile(r"utils?|helpers?|common|misc|.*manager.*", re.IGNORECASE)


def modules(below: Path = SOURCE) -> Iterator[tuple[str, str]]:
    """Dotted name and text of every module of the package."""
    for path in sorted(below.rglob("*.py")):
        yield dotted(path.relative_to(below)), path.read_text()


def dotted(path: Path) -> str:
    """The dotted name of a file; a package is named after its ``__init__``."""
    return ".".join(path.with_suffix("").parts)


def part_of(module: str) -> str:
    """Which part of the package a module belongs to: ``gossamer.core.wire`` to ``core``."""
    steps = module.split(".")
    if steps[0] != PACKAGE:
        return steps[0]
    return steps[1] if len(steps) > 1 else "__init__"


# imports


def imports(module: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything a module imports, in any of the ways there are."""
    package = module.split(".")[:-1]
    tree = ast.parse(text)
    dynamic = {"import_module", "__import__"} | _aliases_of_import_module(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield node.lineno, each.name
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node.level, node.module)
            for each in node.names:
                yield node.lineno, base if each.name == "*" else f"{base}.{each.name}"
        elif isinstance(node, ast.Call) and _called(node) in dynamic:
            named = node.args[0] if node.args else next((k.value for k in node.keywords), None)
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                name = named.value
                level = len(name) - len(name.lstrip("."))
                yield node.lineno, _absolute(package, level, name.lstrip("."))
            else:
                yield node.lineno, "<computed>"


def _absolute(package: list[str], level: int, name: str | None) -> str:
    base = package[: len(package) - level + 1] if level else []
    return ".".join([*base, *([name] if name else [])])


def _aliases_of_import_module(tree: ast.AST) -> set[str]:
    return {
        each.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "importlib"
        for each in node.names
        if each.asname
    }


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def upward_imports(module: str, text: str) -> list[str]:
    """Imports that do not point downward."""
    part = part_of(module)
    if part in ("__init__", "__main__", "public"):
        return []
    if part not in MAY_IMPORT:
        return [f"{module}: no part of the design is called {part!r}"]
    broken = []
    for line, name in imports(module, text):
        where = f"{module}:{line} imports {name}"
        if name == "<computed>":
            if module not in IMPORT_BY_TABLE:
                broken.append(f"{where}: an import that nobody can read")
        elif name == PACKAGE or name.startswith(f"{PACKAGE}."):
            target = _target(name)
            if target != part and target not in MAY_IMPORT[part]:
                broken.append(f"{where}: {part} may import {sorted(MAY_IMPORT[part])}")
            elif part == "pipeline" and target == "core" and not _within(name, PIPELINE_CORE):
                broken.append(f"{where}: of core, pipeline knows only the trace and the errors")
        elif part in ONLY_MSGSPEC and not _standard_or_msgspec(name):
            broken.append(f"{where}: {part} has no third party but msgspec")
    return broken


def _target(name: str) -> str:
    steps = name.split(".")
    return steps[1] if len(steps) > 1 else "__init__"


def _within(name: str, allowed: set[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def _standard_or_msgspec(name: str) -> bool:
    top = name.split(".")[0]
    return top == "msgspec" or top in sys.stdlib_module_names


NAMES_A_TEMPLATE = {
    "analysis": {f"{PACKAGE}.templates.ringtree.layout"},  # its closed forms are about this layout
    "pipeline": {f"{PACKAGE}.templates.ringtree.layout"},
    "whatif": {f"{PACKAGE}.templates.dispatch"},  # it simulates dispatch and nothing else
}
"""Parts that know a template by name, and what of it."""
BETWEEN_TEMPLATES = {
    "causal": {"reliable", "multicast"},
    "direct": {"dispatch"},  # the same table sync
    "persistent": {"total_order", "reliable", "multicast"},
    "reliable": {"multicast"},
    "ringtree": {"multicast"},
    "single_source": {"multicast"},
    "total_order": {"reliable", "multicast", "persistent"},
}
"""Rooms of templates, and the rooms of other templates that each may import."""
BETWEEN_ROOMS = {
    "overlay": {
        "backbone": set(),
        "directory": {"registry"},
        "groups": {"backbone"},
        "registry": set(),
    },
    "runtime": {
        "api": {"delivery", "net"},
        "delivery": {"api", "net"},
        "net": {"api"},
    },
    "simulator": {
        "invariants": {"workload"},
        "network": set(),
        "scenario": {"invariants", "network", "workload"},
        "workload": {"network"},
    },
}


def between_rooms(module: str, text: str) -> list[str]:
    """Imports from a sibling room that the tables above do not name."""
    steps = module.split(".")
    part, room = part_of(module), steps[2] if len(steps) > 2 else ""
    if part == "templates":
        allowed = BETWEEN_TEMPLATES.get(room, set())
    elif room in BETWEEN_ROOMS.get(part, {}):
        allowed = BETWEEN_ROOMS[part][room]
    else:
        return []
    rooms = set(BETWEEN_ROOMS.get(part, {})) or None
    broken = []
    for line, name in imports(module, text):
        other = name.split(".")
        if other[:2] != [PACKAGE, part] or len(other) < 4 or other[2] == room:
            continue
        if other[2] not in allowed and (rooms is None or other[2] in rooms):
            broken.append(f"{module}:{line} imports {name}: {part}.{room} may import {sorted(allowed)}")
    return broken


def templates_named(module: str, text: str) -> list[str]:
    """Templates are found by entry points: only templates, the test kit and the pairs above import one."""
    part = part_of(module)
    if part in ("templates", "testing"):
        return []
    return [
        f"{module}:{line} imports {name}: look it up in the catalog"
        for line, name in imports(module, text)
        if _within(name, {f"{PACKAGE}.templates"}) and not _within(name, NAMES_A_TEMPLATE.get(part, set()))
    ]


# no I/O below the hosts


def input_output(module: str, text: str) -> list[str]:
    """Clocks, dice, sockets, files, threads and coroutines in a part that may have none."""
    if part_of(module) not in NO_IO:
        return []
    arrays = part_of(module) in ARRAYS
    broken = [
        f"{module}:{line} imports {name}"
        for line, name in imports(module, text)
        if (name.split(".")[0] in BANNED_MODULES or name == "<computed>") and not (arrays and _array(name))
    ]
    for node in ast.walk(ast.parse(text)):
        fault = _fault(node)
        if fault:
            broken.append(f"{module}:{node.lineno} {fault}")  # type: ignore[attr-defined]
    return broken


def _array(name: str) -> bool:
    """Whether an import is of NumPy, but not of its dice."""
    return name.split(".")[0] == "numpy" and not _within(name, {"numpy.random"})


def _fault(node: ast.AST) -> str:
    match node:
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            return "is a coroutine"
        case ast.comprehension(is_async=1):
            return ""  # the coroutine around it is caught
        case ast.Name(id=name, ctx=ast.Load()) if name in BANNED_CALLS:
            return f"uses {name}"
        case ast.Call(func=ast.Attribute(attr="now")):
            return "calls now(): time is an argument"
        case ast.Attribute(attr=name) if name in BANNED_METHODS:
            return f"uses .{name}"
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
            return "rolls dice of its own"
        case ast.Attribute(value=ast.Name(id="sys"), attr="stdin" | "stdout" | "stderr" | "argv"):
            return "uses the streams or arguments of the process"
        case ast.Name(id="__builtins__" | "__loader__"):
            return "reaches for builtins"
    return ""


def unstable_hashes(module: str, text: str) -> list[str]:
    """``hash`` and ``id`` differ from run to run: whatever depends on them is not deterministic."""
    if part_of(module) not in (*NO_IO, "simulator", "traces"):
        return []
    banned = ("hash", "id") if part_of(module) in NO_IO else ("hash",)
    broken: list[str] = []

    def look(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in banned:
            broken.append(f"{module}:{node.lineno} calls {node.func.id}()")
        for child in ast.iter_child_nodes(node):
            look(child)

    look(ast.parse(text))
    return broken


# names and shape


def bad_names(module: str) -> list[str]:
    """Modules named after nothing."""
    return [f"{module}: {step!r} says nothing" for step in module.split(".") if BANNED_NAMES.fullmatch(step)]


def manager_classes(module: str, text: str) -> list[str]:
    """Classes named after nothing."""
    return [
        f"{module}:{node.lineno} class {node.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and BANNED_NAMES.fullmatch(node.name)
    ]


def too_long(module: str, text: str) -> list[str]:
    """Modules that one person cannot read in ten minutes."""
    lines = len(text.splitlines())
    return [f"{module} has {lines} lines, the limit is {MAX_LINES}"] if lines > MAX_LINES else []


def logic_in_init(module: str, text: str) -> list[str]:
    """Anything in an ``__init__`` but a docstring, imports, ``__all__`` and the version."""
    if not module.endswith("__init__"):
        return []
    broken = []
    for position, node in enumerate(ast.parse(text).body):
        match node:
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.Expr(value=ast.Constant(value=str())) if position == 0:
                continue
            case ast.Assign(targets=[ast.Name(id="__all__")]) if _plain(node.value):
                continue
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant()):
                continue
        broken.append(f"{module}:{node.lineno} has logic")
    return broken


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts)


def undocumented(module: str, text: str) -> list[str]:
    """Public classes and functions of the core that do not say what they are, and modules that do not."""
    if part_of(module) != "core":
        return []
    tree = ast.parse(text)
    broken = [] if ast.get_docstring(tree) else [f"{module} has no docstring"]
    for node in tree.body:
        public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
        if public and not ast.get_docstring(node):
            broken.append(f"{module}:{node.lineno} {node.name} has no docstring")
    return broken


def constants(text: str) -> dict[str, tuple[object, bool]]:
    """Text constants of a module, and whether a docstring follows each."""
    body = ast.parse(text).body
    found = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(value))) if (
                name.isupper()
            ):
                said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                found[name] = (value, said)
    return found


# hygiene

_PLACES = "|".join(("root", "work", "home", "Users"))
_MACHINE_PATH = re.compile(rf"(?<![\w.$}})/~-])/(?:{_PLACES})(?:/|\b(?![\w-]))")
_HOSTS = (
    "pypi" + ".org",
    "python" + "hosted",
    "npm" + "js",
    "docker" + ".io",
    "ghcr" + ".io",
    "arti" + "factory",
)
_REGISTRY = re.compile("|".join(map(re.escape, _HOSTS)) + r"|--(?:extra-)?index" + "-url", re.IGNORECASE)


def machine_paths(name: str, text: str) -> list[str]:
    """Paths of the machine somebody happened to work on, and hosts that packages happened to come from."""
    return [
        f"{name}:{number} {found[0]!r}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in (_MACHINE_PATH.search(line), _REGISTRY.search(line))
        if found
    ]


def styled(name: str, text: str) -> list[str]:
    """Consoles that a command makes by itself: they take brackets in names of users for styles."""
    tree = ast.parse(text)
    made = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        f"{name}:{node.lineno}: make it with gossamer.cli.screen"
        for node in made
        if ast.unparse(node.func).rpartition(".")[2] == "Console"
    ]

"""A compiled copy of the simulator and of the protocols, for long proofs. Nobody else needs it.

    python benchmarks/compiled.py build/compiled
    PYTHONPATH=build/compiled python benchmarks/proof.py

copies the package into a folder and compiles there what a simulation spends its time in, with mypyc, which
comes with mypy; it needs a C compiler. Before it says that the copy may be used, it runs a smaller
variant of every scenario of the proof with both and compares the hashes of their traces.

What mypyc has no words for is written differently in the copy, and only there: structs move to an
interpreted module beside their own, ``__slots__`` go, and values that a class body sets belong to the class.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gossamer"
SCENARIOS = Path(__file__).parents[1] / "scenarios"
PACKAGES = ("core", "overlay", "consensus", "simulator", "templates")
COMPILED = {
    "consensus": "disk_store leader log node stores",
    "core": "context engine instance pending template tracer tree wire",
    "overlay.backbone": "flood_repair linkstate members probing spanner tree_codec",
    "overlay.directory": "service",
    "overlay.groups": "group interest rendezvous tree",
    "overlay.registry": "service",
    "simulator": "clock effects host tally",
    "simulator.network": "link_models",
    "templates": "loop multicast single_source",
    "templates.causal": "cut template",
    "templates.multiring": "circle discovery dissemination election join leave membership modes"
    " peer recent repair request_timer request_window ring survey swap template",
    "templates.persistent": "template voter_log",
    "templates.reliable": "sources template window windows",
    "templates.total_order": "entry_fetch forwarding template",
}
"""Where simulations of the proof spend their time, and whoever those classes inherit from."""


class Module:
    """One module of the copy: which of its classes are structs, and its text as the compiler takes it."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.name = ".".join(path.relative_to(root).with_suffix("").parts)
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.came_from = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def family(self, roots: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Its classes one of whose bases is among these; in the order of the text, so that one pass does."""
        found: set[tuple[str, str]] = set()
        for name, node in self.classes.items():
            for base in node.bases:
                bare = base.value if isinstance(base, ast.Subscript) else base
                text = ast.unparse(bare)
                origin = self.came_from.get(text, (self.name, text))
                if text == "msgspec.Struct":
                    origin = ("msgspec", "Struct")
                if origin in roots | found:
                    found.add((self.name, name))
        return found


def kin(modules: list[Module], root: tuple[str, str]) -> set[tuple[str, str]]:
    """All classes below one, in all modules."""
    found = {root}
    while True:
        more = set.union(*(module.family(found) for module in modules)) - found
        if not more:
            return found
        found |= more


def split(module: Module, structs: set[str], templates: set[str]) -> None:
    """Write a module as the compiler takes it, and its structs beside it."""
    lines = module.text.splitlines()
    head = next(
        node.lineno - 1
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    )
    extra = ["from typing import ClassVar as _OfTheClass"]
    if structs:
        beside = f"{module.name}__structs"
        taken = _structs(module, structs)
        module.path.with_name(f"{module.path.stem}__structs.py").write_text(taken)
        extra.append(f"from {beside} import {', '.join(sorted(structs))}")
    for name, node in module.classes.items():
        if name in structs:
            _blank(lines, node)
        elif not _foreign(node):
            _classwide(lines, node)
    lines[head] = "; ".join([lines[head], *extra])
    lines += [f"{name}.__init_subclass__()  # now that its handlers are there" for name in sorted(templates)]
    module.path.write_text("\n".join(lines) + "\n")


def _foreign(node: ast.ClassDef) -> bool:
    """Whether a class is made by something that mypyc leaves to Python."""
    bases = {ast.unparse(base).split("[")[0] for base in node.bases}
    return bool(bases & {"Enum", "StrEnum", "IntEnum", "Flag", "NamedTuple", "TypedDict"})


def _blank(lines: list[str], node: ast.stmt) -> None:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    for number in range(first - 1, node.end_lineno or first):
        lines[number] = ""


def _classwide(lines: list[str], node: ast.ClassDef) -> None:
    for part in node.body:
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            if part.targets[0].id == "__slots__":
                indent = lines[part.lineno - 1][: part.col_offset]
                _blank(lines, part)
                lines[part.lineno - 1] = f"{indent}pass"
            else:
                line = lines[part.lineno - 1]
                lines[part.lineno - 1] = re.sub(r"^(\s*\w+) =", r"\1: _OfTheClass =", line)


def _structs(module: Module, structs: set[str]) -> str:
    """The text of the structs and of all that they need of their module."""
    defined: dict[str, ast.stmt] = {}
    for node in module.tree.body:
        if isinstance(node, ast.Assign):
            defined |= {each.id: node for each in ast.walk(node) if _bound(each)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined[node.target.id] = node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined[node.name] = node
    wanted, names, open_ = set[int](), {"TYPE_CHECKING"}, sorted(structs)
    while open_:
        node = defined.get(open_.pop())
        if node is None or id(node) in wanted:
            continue
        wanted.add(id(node))
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names |= used
        open_ += sorted(used)
    kept = [
        node
        for node in module.tree.body
        if id(node) in wanted or isinstance(node, ast.Import | ast.ImportFrom | ast.If)
    ]
    strays = [node.name for node in kept if isinstance(node, ast.ClassDef) and node.name not in structs]
    if strays:
        raise SystemExit(f"{module.name}: structs need {', '.join(strays)}, which is none")
    return "\n".join(["# mypy: ignore-errors", *(_only(node, names) for node in kept)]) + "\n"


def _bound(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _only(node: ast.stmt, names: set[str]) -> str:
    """An import reduced to what is used; anything else as it is."""
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        used = [each for each in node.names if (each.asname or each.name) in names]
        return ast.unparse(ast.ImportFrom(node.module, used, node.level)) if used else ""
    return ast.unparse(node)


def remember(control: Path) -> None:
    """A compiled method takes no attribute: which messages it handles is written down beside it."""
    text = control.read_text()
    for there, instead in (
        (
            "handler.handles = messages  # type: ignore[attr-defined]",
            "HANDLES[id(handler)] = (messages, handler)",
        ),
        ('getattr(member, "handles", ())', "HANDLES.get(id(member), ((), None))[0]"),
        ("\nHandler =", "\nHANDLES: dict[int, tuple[tuple[type[Message], ...], object]] = {}\nHandler ="),
    ):
        if text.count(there) != 1:
            raise SystemExit(f"{control}: {there!r} is not there once")
        text = text.replace(there, instead)
    control.write_text(text)


def copy(target: Path) -> list[Path]:
    """Copy the package, written as the compiler takes it; what is to be compiled."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE, target / "gossamer", ignore=shutil.ignore_patterns("__pycache__"))
    paths = [path for package in PACKAGES for path in sorted((target / "gossamer" / package).rglob("*.py"))]
    modules = [Module(path, target) for path in paths if path.stem != "__init__"]
    structs = kin(modules, ("msgspec", "Struct"))
    templates = kin(modules, ("gossamer.core.template", "Template")) - {
        ("gossamer.core.template", "Template")
    }
    remember(target / "gossamer" / "core" / "control.py")
    compiled = []
    for module in modules:
        own = {name for place, name in structs if place == module.name}
        room = module.name.removeprefix("gossamer.").rpartition(".")[0]
        if module.path.stem not in COMPILED.get(room, "").split():
            continue
        split(module, own, {name for place, name in templates if place == module.name})
        compiled.append(module.path)
    return compiled


SETUP = """
from mypyc.build import mypycify
from setuptools import setup

options = ["--config-file=", "--ignore-missing-imports", "--disable-error-code=attr-defined"]
modules = mypycify([*options, *{paths}], opt_level="1", debug_level="0", multi_file=True)
setup(name="compiled", packages=[], ext_modules=modules)
"""


def build(target: Path) -> None:
    """Copy and compile."""
    paths = [str(path.relative_to(target)) for path in copy(target)]
    (target / "setup.py").write_text(SETUP.format(paths=paths))
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=target, check=True)


def traced(name: str) -> str:
    """The hash of the trace of a template's scenario, with 20 nodes and in a quarter of an hour."""
    from gossamer.simulator.scenario.run import load, run
    from gossamer.simulator.scenario.shrink import smaller

    return run(smaller(load(SCENARIOS / f"{name}.toml"), 20, 8.0), seed=1).trace_hash


def digest(name: str, folder: Path) -> str:
    """The same, with the package as it lies in a folder."""
    command = [sys.executable, __file__, "--trace", name]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def differing(target: Path) -> list[str]:
    """Templates whose scenario leaves another trace when compiled."""
    found = []
    for name in ("causal", "loop", "multicast", "persistent", "reliable", "single-source", "total-order"):
        interpreted, compiled = digest(name, SOURCE.parent), digest(name, target)
        print(f"{name}: {interpreted} interpreted, {compiled} compiled", flush=True)
        if interpreted != compiled:
            found.append(name)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path, nargs="?", help="folder for the copy; what is there is replaced")
    parser.add_argument("--trace", metavar="NAME", help="only print the hash of the trace of a small run")
    options = parser.parse_args(arguments)
    if options.trace:
        print(traced(options.trace))
        return 0
    if options.target is None:
        parser.error("where to?")
    target = options.target.resolve()
    build(target)
    found = differing(target)
    if found:
        print(f"not to be used, the compiled copy does something else: {', '.join(found)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

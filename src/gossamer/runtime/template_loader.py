"""Loads the templates of a package that has been checked, from memory.

The modules live under a name that no import statement can say (``gossamer-package:`` and the digest of what
was signed), so a package hides nothing and is imported by nobody else; its own modules import each other
with a dot in front. One digest is imported once per process. What fails half-way leaves nothing behind.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, module_from_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any

from gossamer.core.errors import BadPackage
from gossamer.core.template import Settings, Template
from gossamer.security.package import ROOT, Package

NAMESPACE = "gossamer-package:"

_one_at_a_time = threading.Lock()


class Templates(Mapping[str, type[Template[Any]]]):
    """The templates of a node: those installed, and those loaded since. Neither replaces what is there."""

    def __init__(self, installed: Mapping[str, type[Template[Any]]]) -> None:
        self._installed = installed
        self._loaded: dict[str, type[Template[Any]]] = {}

    def add(self, found: Mapping[str, type[Template[Any]]]) -> list[str]:
        """Add loaded templates; names of those that are new."""
        new = [name for name in found if name not in self]
        self._loaded.update({name: found[name] for name in new})
        return new

    def __getitem__(self, name: str) -> type[Template[Any]]:
        return self._loaded[name] if name in self._loaded else self._installed[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._installed

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._installed, *self._loaded}))

    def __len__(self) -> int:
        return len(self._installed) + len(self._loaded)


def load(package: Package) -> dict[str, type[Template[Any]]]:
    """The templates that a package says it has, by name; raises BadPackage.

    The caller has asked Trust: this runs the package's code.
    """
    manifest = package.label.manifest
    title = f"{manifest.name}-{manifest.version}"
    return _load(_Modules(NAMESPACE + package.label.digest, title, package.files), manifest.templates)


def rehearse(name: str, files: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """What templates one's own files would give as a package: name, and what each says of itself.

    Raises BadPackage if nodes would not load them. It runs the code, and forgets it.
    """
    digest = sha256(b"".join(sha256(each.encode() + files[each]).digest() for each in sorted(files)))
    modules = _Modules(f"{NAMESPACE}rehearsal:{digest.hexdigest()}", name, files)
    try:
        found = _load(modules)
    finally:
        modules.forget()
    return {each: kind.described() for each, kind in found.items()}


class _Modules(MetaPathFinder, InspectLoader):
    """Finds and loads the modules of one package, and no others."""

    def __init__(self, root: str, title: str, files: Mapping[str, bytes]) -> None:
        self.root, self.title = root, title
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(fullname, self) if self._path(fullname) else None

    def is_package(self, fullname: str) -> bool:
        return (self._path(fullname) or "").endswith(ROOT)

    def get_source(self, fullname: str) -> str:
        return decode_source(self._files[self._path(fullname) or ""])

    def get_code(self, fullname: str) -> CodeType:
        path = self._path(fullname) or ""
        return compile(self._files[path], f"{NAMESPACE}{self.title}/{path}", "exec", dont_inherit=True)

    def owns(self, fullname: str) -> bool:
        return fullname == self.root or fullname.startswith(f"{self.root}.")

    def forget(self) -> None:
        """Leave nothing of the package in this process."""
        for name in [each for each in sys.modules if self.owns(each)]:
            del sys.modules[name]
        sys.meta_path[:] = [each for each in sys.meta_path if each is not self]

    def _path(self, fullname: str) -> str | None:
        if not self.owns(fullname):
            return None
        steps = fullname[len(self.root) + 1 :].replace(".", "/")
        choices = (f"{steps}/{ROOT}", f"{steps}.py") if steps else (ROOT,)
        return next((each for each in choices if each in self._files), None)


def _load(modules: _Modules, names: Sequence[str] = ()) -> dict[str, type[Template[Any]]]:
    """The templates with these names, without any all of them."""
    with _one_at_a_time:
        try:
            found = _templates(modules, sys.modules.get(modules.root) or _run(modules))
            missing = [name for name in names if name not in found]
            if missing or not found:
                wanted = f"no template called {missing[0]!r}" if missing else "no template"
                reason = (
                    f"{ROOT} defines or imports {wanted}: a subclass of Template with a docstring and a name"
                )
                raise BadPackage(modules.title, reason)
        except BaseException:
            modules.forget()
            raise
    return {name: found[name] for name in names or sorted(found)}


def _run(modules: _Modules) -> ModuleType:
    spec = modules.find_spec(modules.root)
    if spec is None:
        raise BadPackage(modules.title, f"it has no {ROOT}")
    module = module_from_spec(spec)
    sys.modules[modules.root] = module
    sys.meta_path.append(modules)
    try:
        modules.exec_module(module)
    except (Exception, SystemExit) as error:
        hint = "; modules of a package import each other with a dot in front"
        reason = f"its code cannot be imported ({type(error).__name__}: {error})"
        raise BadPackage(modules.title, reason + hint * isinstance(error, ModuleNotFoundError)) from error
    return module


def _templates(modules: _Modules, module: ModuleType) -> dict[str, type[Template[Any]]]:
    """The templates of a package: classes of its own that stand in its first module and have a name."""
    found: dict[str, type[Template[Any]]] = {}
    for kind in vars(module).values():
        own = isinstance(kind, type) and issubclass(kind, Template) and modules.owns(kind.__module__)
        if not own or "name" not in vars(kind) or kind in found.values():
            continue
        if kind.name in found:
            raise BadPackage(modules.title, f"two of its classes are called {kind.name!r}")
        silent = [word for word, text in kind.described().items() if not text]
        if silent:
            raise BadPackage(modules.title, f"the docstring of {kind.__name__} does not say its {silent[0]}")
        if not (isinstance(kind.settings_type, type) and issubclass(kind.settings_type, Settings)):
            raise BadPackage(modules.title, f"settings_type of {kind.__name__} is no kind of Settings")
        found[kind.name] = kind
    return found

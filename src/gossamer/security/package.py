"""A template package: the source of one or more templates, signed.

::

    label     'gossamer template package 1\\n' | key (32) | signature (64) | length (4) | manifest
    package   label | the bytes of all files, in the order of the manifest

The manifest is msgpack: names, version and, of each file, path, size and SHA-256. The Ed25519 signature is
over the first line and the manifest, so it covers every byte of every file. It is checked over the bytes as
they came, before anything in them is parsed; nothing in a package is compressed, unpickled or evaluated
here. A label is small: a node checks it before it asks for the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from gossamer.core.errors import Altered, BadName, BadPackage, ConfigError, TooLarge, Unsigned, Untrusted
from gossamer.core.names import MAX_NODE_NAME, SERVICE_PREFIX
from gossamer.security.keys import KEY_BYTES, SIGNATURE_BYTES, PrivateKey, PublicKey, parse_public

FORMAT = b"gossamer template package 1\n"
ROOT = "__init__.py"
"""The file that a package begins with; its templates are defined or imported there."""
MAX_FILES = 64
MAX_FILE = 256 * 1024
MAX_BODY = 1024 * 1024
"""Bytes of all files together."""
MAX_LABEL = 16 * 1024
MAX_TEMPLATES = 16
MAX_PATH = 100
MAX_KEYS = 1000

_KEY = len(FORMAT)
_SIGNATURE = _KEY + KEY_BYTES
_LENGTH = _SIGNATURE + SIGNATURE_BYTES
_MANIFEST = _LENGTH + 4

NAME = rf"^[A-Za-z0-9_-][A-Za-z0-9_.-]{{0,{MAX_NODE_NAME - 1}}}\Z"
VERSION = r"^[A-Za-z0-9][A-Za-z0-9.+_-]{0,31}\Z"
# plain names of modules: nothing that leads out of the package, nothing hidden, one spelling each
PATH = r"^([A-Za-z_][A-Za-z0-9_]*/)*[A-Za-z_][A-Za-z0-9_]*\.py\Z"


class File(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One module of a package."""

    path: Annotated[str, Meta(max_length=MAX_PATH, pattern=PATH)]
    size: Annotated[int, Meta(ge=0, le=MAX_FILE)]
    digest: Annotated[bytes, Meta(min_length=32, max_length=32)]


class Manifest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is signed: the names of a package and of its templates, its version, and its files."""

    name: Annotated[str, Meta(pattern=NAME)]
    version: Annotated[str, Meta(pattern=VERSION)]
    templates: Annotated[tuple[Annotated[str, Meta(pattern=NAME)], ...], Meta(max_length=MAX_TEMPLATES)]
    files: Annotated[tuple[File, ...], Meta(max_length=MAX_FILES)]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class Label(msgspec.Struct, frozen=True):
    """A manifest whose signature is right; whether its key is trusted is another question."""

    key: PublicKey
    manifest: Manifest
    digest: str
    """SHA-256 of the manifest: two packages with the same one are the same."""


class Package(msgspec.Struct, frozen=True):
    """A signed manifest and the files it describes, all of them as they were signed."""

    label: Label
    files: dict[str, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Manifest).decode


class Trust:
    """The keys whose packages may be loaded; raises ConfigError if a line is none."""

    def __init__(self, lines: Iterable[str] = ()) -> None:
        self._keys: dict[bytes, PublicKey] = {}
        for line in lines:
            try:
                key = parse_public(line)
            except BadName as error:
                raise ConfigError(str(error), key="trust.keys") from None
            self._keys[key.raw] = key
        if len(self._keys) > MAX_KEYS:
            raise ConfigError(f"{len(self._keys)} keys, the limit is {MAX_KEYS}", key="trust.keys")

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: PublicKey) -> bool:
        return key.raw in self._keys

    def admit(self, what: str, label: Label) -> PublicKey:
        """The key of a label as it is called here; raises Untrusted."""
        if label.key not in self:
            raise Untrusted(what, label.key.id, len(self))
        return self._keys[label.key.raw]


def pack(
    name: str, version: str, templates: Iterable[str], files: Mapping[str, bytes], key: PrivateKey
) -> bytes:
    """A signed package; raises BadName or TooLarge for what nobody would load."""
    ordered = sorted(files.items())
    for path, content in ordered:
        if len(content) > MAX_FILE:
            raise TooLarge(f"bytes of {path!r}", len(content), MAX_FILE)
    entries = tuple(File(path, len(content), sha256(content).digest()) for path, content in ordered)
    manifest = Manifest(name, version, tuple(sorted(templates)), entries)
    for what, size, limit in (
        ("number of files", len(entries), MAX_FILES),
        ("number of templates", len(manifest.templates), MAX_TEMPLATES),
        ("bytes of all files", manifest.size, MAX_BODY),
    ):
        if size > limit:
            raise TooLarge(what, size, limit)
    for kind, text, pattern in (
        ("package", name, NAME),
        ("package version", version, VERSION),
        *(("template", each, NAME) for each in manifest.templates),
        *(("module file", each.path, PATH) for each in entries),
    ):
        if not re.match(pattern, text) or len(text) > MAX_PATH:
            raise BadName(kind, text, f"it must match {pattern} and have at most {MAX_PATH} characters")
    fault = _fault(manifest)
    if fault:
        raise BadPackage(name, fault)
    signed = _encode(manifest)
    head = FORMAT + key.public.raw + key.sign(FORMAT + signed) + len(signed).to_bytes(4, "big")
    return head + signed + b"".join(content for _, content in ordered)


def split(what: str, data: bytes) -> tuple[bytes, bytes]:
    """Label and files of a package, unchecked; raises Unsigned, Altered or TooLarge."""
    if len(data) > MAX_LABEL + MAX_BODY:
        raise TooLarge(f"bytes of the package {what!r}", len(data), MAX_LABEL + MAX_BODY)
    if not data.startswith(FORMAT):
        raise Unsigned(what)
    end = _MANIFEST + int.from_bytes(data[_LENGTH:_MANIFEST], "big")
    if len(data) < _MANIFEST or end > len(data):
        raise Altered(what, f"it ends after {len(data)} bytes")
    return data[:end], data[end:]


def read_label(what: str, data: bytes) -> Label:
    """The label that bytes hold, if the key that it names signed it; raises BadPackage or TooLarge.

    The key may be anybody's: ask Trust before the files are loaded.
    """
    if len(data) > MAX_LABEL:
        raise TooLarge(f"bytes of the label of {what!r}", len(data), MAX_LABEL)
    label, rest = split(what, data)
    if rest:
        raise Altered(what, f"{len(rest)} bytes follow its label")
    key, signature, signed = PublicKey(data[_KEY:_SIGNATURE]), data[_SIGNATURE:_LENGTH], label[_MANIFEST:]
    if not key.verifies(signature, FORMAT + signed):
        raise Altered(what, "the signature does not fit")
    try:
        manifest = _decode(signed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadPackage(what, f"its manifest breaks a limit: {error}") from None
    fault = _fault(manifest)
    if fault or _encode(manifest) != signed:
        raise BadPackage(what, fault or "its manifest is not in the one form that it may have")
    return Label(key, manifest, sha256(signed).hexdigest())


def read_files(what: str, label: Label, contents: Mapping[str, bytes]) -> Package:
    """The package of a label with just the files that were signed; raises Altered."""
    files = {}
    for file in label.manifest.files:
        content = files[file.path] = contents.get(file.path, b"")
        if len(content) != file.size or sha256(content).digest() != file.digest:
            raise Altered(what, f"file {file.path!r} differs")
    return Package(label, files)


def read_package(what: str, data: bytes) -> Package:
    """A whole package, signed by the key that its label names; raises BadPackage or TooLarge."""
    head, body = split(what, data)
    label = read_label(what, head)
    if len(body) != label.manifest.size:
        raise Altered(what, f"it has {len(body)} bytes of files and not {label.manifest.size}")
    contents, position = {}, 0
    for file in label.manifest.files:
        contents[file.path] = body[position : position + file.size]
        position += file.size
    return read_files(what, label, contents)


def _fault(manifest: Manifest) -> str:
    """What a manifest must not say although each of its fields may."""
    paths = [file.path for file in manifest.files]
    modules = {path.removesuffix(".py").removesuffix("/__init__") for path in paths}
    if ROOT not in paths:
        return f"it has no {ROOT}"
    if len(modules) < len(paths) or paths != sorted(paths):
        return "two of its files are the same module, or they are out of order"
    if manifest.size > MAX_BODY:
        return f"its files have {manifest.size} bytes, the limit is {MAX_BODY}"
    if not manifest.templates or list(manifest.templates) != sorted(set(manifest.templates)):
        return "it names no template, one twice, or out of order"
    if any(each.startswith(SERVICE_PREFIX) for each in manifest.templates):
        return f"names of templates that begin with {SERVICE_PREFIX!r} belong to node services"
    return ""

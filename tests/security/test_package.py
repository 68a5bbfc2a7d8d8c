"""Packages: what was signed is read, and nothing else is; what is altered never runs."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.core.errors import (
    Altered,
    BadName,
    BadPackage,
    ConfigError,
    GossamerError,
    TooLarge,
    Unsigned,
    Untrusted,
)
from gossamer.security.keys import KEY_BYTES, SIGNATURE_BYTES, PrivateKey
from gossamer.security.package import (
    FORMAT,
    MAX_BODY,
    MAX_FILE,
    MAX_FILES,
    MAX_LABEL,
    MAX_TEMPLATES,
    Trust,
    pack,
    read_label,
    read_package,
    split,
)
from tests.security.sources import echo, echo_files, naughty
from tests.security.trials import accepted, flipped, ran

KEY = PrivateKey.new("author")
TRUST = Trust([KEY.public.line])
PACKAGE = naughty(KEY)
FILES = {"__init__.py": b"", "a.py": b"A = 1\n"}


def signed(manifest: object, body: bytes = b"", key: PrivateKey = KEY) -> bytes:
    """What a signer makes who keeps to no rules."""
    data = manifest if isinstance(manifest, bytes) else msgspec.msgpack.encode(manifest)
    head = FORMAT + key.public.raw + key.sign(FORMAT + data)
    return head + len(data).to_bytes(4, "big") + data + body


def entry(path: str, content: bytes = b"", size: int | None = None) -> tuple[str, int, bytes]:
    return path, len(content) if size is None else size, sha256(content).digest()


ROOT = entry("__init__.py")


# what was signed


def test_a_package_is_read_as_it_was_made() -> None:
    package = read_package("echo", echo(KEY, "1.0", words=b"WORD = 1\n"))
    manifest = package.label.manifest
    assert (manifest.name, manifest.version, manifest.templates) == ("gossamer-echo", "1.0", ("echo",))
    assert package.files == echo_files() | {"words.py": b"WORD = 1\n"}
    assert package.label.key.raw == KEY.public.raw
    assert TRUST.admit("echo", package.label).name == "author"


def test_the_same_files_and_key_make_the_same_bytes_in_any_order() -> None:
    backwards = dict(reversed(FILES.items()))
    one, two = (pack("p", "1", ["x", "y"], each, KEY) for each in (FILES, backwards))
    assert one == two == pack("p", "1", ["y", "x"], FILES, KEY)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}\.py", fullmatch=True), st.binary(max_size=300), max_size=5))
def test_whatever_is_packed_is_read_back(files: dict[str, bytes]) -> None:
    files = {"__init__.py": b""} | files
    assert read_package("p", pack("p", "1", ["x"], files, KEY)).files == files


# what was altered


def test_the_package_runs_as_long_as_nobody_alters_it() -> None:
    assert ran(PACKAGE, TRUST)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_with_any_byte_flipped_it_is_refused_and_never_runs(mask: int) -> None:
    for altered in flipped(PACKAGE, range(len(PACKAGE)), mask):
        with pytest.raises(BadPackage):
            read_package("p", altered)
    assert accepted(flipped(PACKAGE, range(0, len(PACKAGE), 7), mask), TRUST) == 0


@given(st.data())
def test_with_anything_cut_out_doubled_or_replaced_it_is_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(PACKAGE)))
    end = data.draw(st.integers(start, len(PACKAGE)))
    altered = PACKAGE[:start] + data.draw(st.binary(max_size=50)) + PACKAGE[end:]
    if altered != PACKAGE:
        with pytest.raises(BadPackage):
            read_package("p", altered)


@pytest.mark.parametrize("length", [*range(0, len(PACKAGE), 11), len(PACKAGE) - 1])
def test_cut_short_it_is_refused(length: int) -> None:
    with pytest.raises(Altered if length >= len(FORMAT) else Unsigned):
        read_package("p", PACKAGE[:length])


def test_with_something_behind_it_it_is_refused() -> None:
    label, _ = split("p", PACKAGE)
    with pytest.raises(Altered, match="bytes of files"):
        read_package("p", PACKAGE + b"x")
    with pytest.raises(Altered, match="follow its label"):
        read_label("p", label + b"x")


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_with_an_error_of_ours(noise: bytes) -> None:
    for data in (noise, FORMAT + noise):
        with pytest.raises(BadPackage):
            read_package("p", data)


def test_parts_of_two_packages_of_one_signer_do_not_fit_each_other() -> None:
    other = pack("naughty", "2", ["naughty"], {"__init__.py": b"x = 1\n"}, KEY)
    (label, body), (other_label, other_body) = split("p", PACKAGE), split("p", other)
    for mixed in (label + other_body, other_label + body):
        with pytest.raises(Altered):
            read_package("p", mixed)


# who signed


def test_another_key_is_refused_by_its_name() -> None:
    other = PrivateKey.new()
    label = read_package("p", naughty(other)).label
    with pytest.raises(Untrusted, match=r"none of the 1.*\[trust\]") as refused:
        TRUST.admit("p", label)
    assert refused.value.key == other.public.id
    assert not ran(naughty(other), TRUST)
    with pytest.raises(Untrusted, match="trusts no key"):
        Trust().admit("p", label)


def test_to_claim_a_trusted_key_needs_its_signature() -> None:
    forged = naughty(PrivateKey.new())
    claimed = FORMAT + KEY.public.raw + forged[len(FORMAT) + KEY_BYTES :]
    with pytest.raises(Altered, match="signature"):
        read_package("p", claimed)


def test_a_signature_of_something_else_signs_no_package() -> None:
    label, body = split("p", PACKAGE)
    manifest = label[len(FORMAT) + KEY_BYTES + SIGNATURE_BYTES + 4 :]
    other = FORMAT + KEY.public.raw + KEY.sign(manifest) + len(manifest).to_bytes(4, "big") + manifest
    with pytest.raises(Altered, match="signature"):
        read_package("p", other + body)


def test_a_signature_of_zeros_and_a_key_of_zeros_are_no_signature() -> None:
    label, body = split("p", PACKAGE)
    rest = label[len(FORMAT) + KEY_BYTES + SIGNATURE_BYTES :]
    for key in (KEY.public.raw, bytes(KEY_BYTES)):
        with pytest.raises(GossamerError):
            TRUST.admit("p", read_package("p", FORMAT + key + bytes(SIGNATURE_BYTES) + rest + body).label)


def test_plain_source_and_archives_are_unsigned() -> None:
    for data in (b"", b"print('hello')", b"PK\x03\x04" + bytes(100)):
        with pytest.raises(Unsigned, match="no signature"):
            read_package("p", data)


def test_a_list_of_keys_with_nonsense_in_it_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"trust\.keys"):
        Trust([KEY.public.line, "ed25519:AAAA"])
    assert len(Trust([KEY.public.line, KEY.public.id])) == 1


# limits, also for signers who keep to none


TRAVERSAL = [
    "../evil.py",
    "/etc/evil.py",
    "a/../../evil.py",
    "a//b.py",
    "./a.py",
    "a\\b.py",
    "C:evil.py",
    ".hidden.py",
    "a.b.py",
    "a.pyc",
    "a.so",
    "a.py\n",
    "a.py\0",
    "\u202ea.py",
    "",
    "x" * 200 + ".py",
]


@pytest.mark.parametrize("path", TRAVERSAL)
def test_a_path_that_is_no_plain_module_is_refused_by_author_and_reader(path: str) -> None:
    with pytest.raises(BadName):
        pack("p", "1", ["x"], FILES | {path: b""}, KEY)
    files = sorted([ROOT, entry(path)])
    with pytest.raises(BadPackage, match="limit"):
        read_package("p", signed(("p", "1", ["x"], files)))


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"\xc1",
        b"\x91" * 5000,
        ["p", "1", ["x"]],
        ["p", "1", ["x"], [ROOT], "more"],
        ["p", "1", ["x"], []],
        ["p", "1", ["x"], [entry("a.py")]],
        ["p", "1", [], [ROOT]],
        ["p", "1", ["x", "x"], [ROOT]],
        ["p", "1", ["y", "x"], [ROOT]],
        ["p", "1", ["gossamer.registry"], [ROOT]],
        ["p", "1", ["two words"], [ROOT]],
        ["p", "1", ["x" * 65], [ROOT]],
        ["", "1", ["x"], [ROOT]],
        ["p", "", ["x"], [ROOT]],
        ["p", "1\n", ["x"], [ROOT]],
        ["p", "1", [f"x{n:02}" for n in range(MAX_TEMPLATES + 1)], [ROOT]],
        ["p", "1", ["x"], [ROOT, ROOT]],
        ["p", "1", ["x"], [ROOT, entry("a.py"), entry("a/__init__.py")]],
        ["p", "1", ["x"], [entry("a.py"), ROOT]],
        ["p", "1", ["x"], [ROOT, *(entry(f"a{n:03}.py") for n in range(MAX_FILES))]],
        ["p", "1", ["x"], [ROOT, entry("a.py", size=MAX_FILE + 1)]],
        ["p", "1", ["x"], [ROOT, entry("a.py", size=-1)]],
        ["p", "1", ["x"], [ROOT, ("a.py", 0, b"short")]],
        ["p", "1", ["x"], [ROOT, *(entry(f"a{n}.py", size=MAX_FILE) for n in range(5))]],
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused_although_it_is_signed(manifest: object) -> None:
    with pytest.raises(BadPackage):
        read_package("p", signed(manifest))


def test_a_manifest_in_another_form_than_its_own_is_refused() -> None:
    usual = msgspec.msgpack.encode(("p", "1", ["x"], [ROOT]))
    assert read_package("p", signed(usual)).files == {"__init__.py": b""}
    longer = b"\xdc\x00\x04" + usual[1:]  # the same list, its length in two bytes
    with pytest.raises(BadPackage, match="one form"):
        read_package("p", signed(longer))


def test_what_is_too_large_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(TooLarge, match=str(MAX_LABEL + MAX_BODY)):
        read_package("p", bytes(MAX_LABEL + MAX_BODY + 1))
    with pytest.raises(TooLarge, match=str(MAX_LABEL)):
        read_label("p", bytes(MAX_LABEL + 1))


@pytest.mark.parametrize(
    ("files", "templates", "what"),
    [
        ({"a.py": bytes(MAX_FILE + 1)}, ["x"], "a.py"),
        ({f"a{n}.py": bytes(MAX_FILE) for n in range(5)}, ["x"], "all files"),
        ({f"a{n}.py": b"" for n in range(MAX_FILES)}, ["x"], "number of files"),
        ({}, [f"x{n}" for n in range(MAX_TEMPLATES + 1)], "number of templates"),
    ],
)
def test_an_author_is_told_what_is_too_large(
    files: dict[str, bytes], templates: list[str], what: str
) -> None:
    with pytest.raises(TooLarge, match=what):
        pack("p", "1", templates, {"__init__.py": b""} | files, KEY)


def test_the_largest_package_that_may_be_is_read() -> None:
    names = [f"a{n:02}" + "x" * 90 for n in range(MAX_FILES - 1)]
    share = MAX_BODY // len(names)
    files = {"__init__.py": b""} | {f"{name}.py": bytes(share) for name in names}
    package = pack("p" * 64, "1" * 32, [f"x{n:02}" + "y" * 61 for n in range(MAX_TEMPLATES)], files, KEY)
    assert read_package("p", package).files == files


@pytest.mark.parametrize(
    ("name", "version", "template"),
    [("two words", "1", "x"), ("p", "one two", "x"), ("p", "1", "two words"), ("../p", "1", "x")],
)
def test_an_author_is_told_which_name_is_wrong(name: str, version: str, template: str) -> None:
    with pytest.raises(BadName):
        pack(name, version, [template], FILES, KEY)


def test_an_author_is_told_that_the_first_module_or_a_template_is_missing() -> None:
    with pytest.raises(BadPackage, match=r"__init__\.py"):
        pack("p", "1", ["x"], {"a.py": b""}, KEY)
    with pytest.raises(BadPackage, match="no template"):
        pack("p", "1", [], FILES, KEY)

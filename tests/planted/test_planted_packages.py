"""Bugs planted into the checks of template packages, to show that the trials catch them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gossamer.security import package as module
from gossamer.security.keys import PrivateKey, PublicKey
from gossamer.security.package import Label, Package, Trust
from tests.security.sources import forget, naughty
from tests.security.trials import accepted, flipped, ran

KEY = PrivateKey.new("author")
TRUST = Trust([KEY.public.line])
PACKAGE = naughty(KEY)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget()


def test_without_the_bugs_nothing_altered_runs() -> None:
    assert accepted(flipped(PACKAGE, range(len(PACKAGE))), TRUST) == 0
    assert not ran(naughty(PrivateKey.new()), TRUST)


def test_a_reader_that_skips_the_signature_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicKey, "verifies", lambda self, signature, data: True)
    label, _ = module.split("p", PACKAGE)
    assert accepted(flipped(PACKAGE, range(len(label))), TRUST) > 64, "each byte of the signature, and more"


def test_a_reader_that_skips_the_digests_of_files_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(what: str, label: Label, contents: dict[str, bytes]) -> Package:
        return Package(label, contents)

    altered = PACKAGE.replace(b"= True", b"= 1234")
    assert not ran(altered, TRUST)
    monkeypatch.setattr(module, "read_files", hasty)
    assert ran(altered, TRUST)


def test_a_node_that_takes_any_key_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trust, "admit", lambda self, what, label: label.key)
    assert ran(naughty(PrivateKey.new()), TRUST)


def test_a_signature_over_anything_but_the_whole_manifest_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check = PublicKey.verifies
    monkeypatch.setattr(
        PublicKey, "verifies", lambda self, signature, data: check(self, signature, data[:60])
    )
    monkeypatch.setattr(PrivateKey, "sign", lambda self, data: self._key.sign(data[:60]))
    package = naughty(KEY)
    label, body = module.split("p", package)
    forged = module.pack("naughty", "1", ["naughty"], {"__init__.py": body + b"# more"}, PrivateKey.new())
    forged_label, forged_body = module.split("p", forged)
    start = len(module.FORMAT) + 32 + 64
    swapped = label[:start] + forged_label[start:] + forged_body
    assert ran(swapped, TRUST)

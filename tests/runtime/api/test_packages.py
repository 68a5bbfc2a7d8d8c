"""Templates that come from the registry: fetched on demand, checked, loaded, and used by real nodes."""

from __future__ import annotations

import asyncio
import builtins
import logging
import sys
from collections.abc import Iterator

import pytest

from gossamer import Node, NodeConfig, Role, connect
from gossamer.errors import Altered, BadPackage, ConfigError, Refused, UnknownTemplate, Unsigned, Untrusted
from gossamer.overlay.directory.pending_templates import TEMPLATE_FILES, TEMPLATES
from gossamer.runtime.api.packages import PIECE
from gossamer.runtime.config import TrustConfig
from gossamer.security.keys import PrivateKey
from gossamer.security.package import pack, split
from gossamer.transports.local import LocalTransport
from tests.runtime.parties import ANY_PORT, SOON, linked, until
from tests.security.sources import SENTINEL, echo, echo_files, forget, naughty

KEY = PrivateKey.new("author")
TRUST = (KEY.public.line,)
LINE = (("one", "two"), ("two", "three"))


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No test finds what another one has imported."""
    yield
    forget()


LOCAL = LocalTransport()


def backbone(name: str, *to: Node, trust: tuple[str, ...] = TRUST, at: str = ANY_PORT) -> Node:
    """A node of a fixed line of three."""
    addresses = [each.addresses[0] for each in to]
    role = Role.BACKBONE
    return connect(*addresses, name=name, role=role, listen=at, tree=LINE, trust=trust, transports=[LOCAL])


def client(of: Node, name: str, trust: tuple[str, ...] = TRUST) -> Node:
    return connect(of.addresses[0], name=name, trust=trust, transports=[LOCAL])


@pytest.mark.parametrize("at", [ANY_PORT, "udp://127.0.0.1:0", "local://{}"])
async def test_a_template_that_one_node_published_flows_over_three_that_did_not_have_it(at: str) -> None:
    async with (
        backbone("one", at=at.format("one")) as one,
        backbone("two", one, at=at.format("two")) as two,
        backbone("three", two, at=at.format("three")) as three,
        client(three, "reader") as reader,
    ):
        await linked(two, "one", "three")
        label = await one.packages.publish(echo(KEY))
        assert label.manifest.templates == ("echo",)
        source = await one.channel("hills", "echo")
        heard = await reader.channel("hills")
        async with heard.subscribe() as events:
            assert "echo" not in two.templates
            await source.publish(b"anybody?")
            event = await events.next(timeout=SOON)
            assert event.payload == b"anybody?"
            assert (event.source, heard.template) == ("one", "echo")
            async with source.answers() as answers:
                await event.feedback(b"here")
                assert (await answers.next(timeout=SOON)).payload == b"here"
        for node in (one, two, three, reader):
            assert node.packages.loaded["echo"].digest == label.digest
            assert "unknown channel" not in node.drops
        assert one.templates["echo"] is two.templates["echo"], "one digest is imported once per process"


async def test_a_file_in_many_pieces_and_a_package_of_many_files_arrive_whole() -> None:
    long = b"# " + b"x" * (3 * PIECE) + b"\nANSWER = 42\n"
    first = b"from .long import ANSWER\nfrom .deep.er import WORD\n" + echo_files()["__init__.py"]
    files = {"__init__.py": first, "long.py": long, "deep/__init__.py": b"", "deep/er.py": b"WORD = 'w'\n"}
    async with backbone("one") as one, client(one, "reader") as reader:
        await one.packages.publish(pack("echo", "2", ["echo"], files, KEY))
        await reader.channel("hills", "echo")
        module = sys.modules[reader.templates["echo"].__module__]
        assert (module.ANSWER, module.WORD) == (42, "w")
        assert len(await one.registry.list(TEMPLATE_FILES)) == 1 + 4 + 1


async def test_a_server_that_lacks_the_template_gets_it_before_it_makes_the_channel() -> None:
    async with backbone("one") as one, client(one, "maker") as maker:
        await maker.packages.publish(echo(KEY))
        with pytest.raises(ConfigError, match="window"):
            await maker.channel("hills", "echo", {"window": 0})
        made = await maker.channel("hills", "echo", {"window": 9})
        assert made.settings == {"window": 9}
        assert "echo" in one.templates


async def test_many_who_ask_at_once_share_one_loading() -> None:
    async with backbone("one") as one:
        await one.packages.publish(echo(KEY))
        channels = await asyncio.gather(*(one.channel("hills", "echo") for _ in range(5)))
        assert all(each is channels[0] for each in channels)


async def test_after_a_restart_the_package_comes_from_the_state_folder(tmp_path: object) -> None:
    config = NodeConfig(name="one", state=str(tmp_path), trust=TrustConfig(TRUST))
    async with Node(config) as first:
        await first.packages.publish(echo(KEY))
        await first.channel("hills", "echo")
    async with Node(config) as second:
        assert "echo" not in second.templates
        assert (await second.channel("hills")).template == "echo"


# what is refused


async def test_a_package_of_an_unknown_key_is_refused_by_its_key_and_never_runs() -> None:
    other = PrivateKey.new()
    async with backbone("one") as one:
        await one.packages.publish(naughty(other))
        with pytest.raises(Untrusted, match="none of the 1") as refused:
            await one.channel("x", "naughty")
        assert refused.value.key == other.public.id
        assert other.public.id in str(refused.value)
        assert not hasattr(builtins, SENTINEL)
        assert "naughty" not in one.templates


async def test_without_any_trusted_key_nothing_is_loaded_and_the_setting_is_named() -> None:
    async with backbone("one", trust=()) as one:
        await one.packages.publish(naughty(KEY))
        with pytest.raises(Untrusted, match=r"trusts no key.*`keys` of \[trust\]"):
            await one.channel("x", "naughty")
        assert not hasattr(builtins, SENTINEL)


async def test_a_node_that_looks_up_a_channel_of_an_untrusted_template_says_whose_it_is() -> None:
    async with backbone("one") as one, client(one, "reader", trust=()) as reader:
        await one.packages.publish(echo(KEY))
        await one.channel("hills", "echo")
        with pytest.raises(Untrusted) as refused:
            await reader.channel("hills")
        assert refused.value.key == KEY.public.id


async def test_a_server_that_does_not_trust_the_key_refuses_the_channel_and_says_why() -> None:
    async with backbone("one", trust=()) as one, client(one, "maker") as maker:
        await maker.packages.publish(echo(KEY))
        with pytest.raises(Refused) as refused:
            await maker.channel("hills", "echo")
        assert KEY.public.id in str(refused.value)
        assert one.drops["template not loaded"] == 1


async def test_code_that_was_altered_in_the_registry_never_runs() -> None:
    package = naughty(KEY)
    async with backbone("one") as one:
        label = await one.packages.publish(package)
        (file,) = label.manifest.files
        _, body = split("", package)
        await one.registry.set(f"{TEMPLATE_FILES}{file.digest.hex()}/0", body.replace(b"True", b"1234"))
        with pytest.raises(Altered, match="__init__"):
            await one.channel("x", "naughty")
        assert not hasattr(builtins, SENTINEL)
        await one.registry.set(f"{TEMPLATE_FILES}{file.digest.hex()}/0", body)
        await one.channel("x", "naughty")
        assert hasattr(builtins, SENTINEL), "the sentinel works"


async def test_code_without_a_signature_never_runs() -> None:
    _, body = split("", naughty(KEY))
    async with backbone("one") as one:
        await one.registry.set(f"{TEMPLATES}naughty", body)
        with pytest.raises(Unsigned, match="no signature"):
            await one.channel("x", "naughty")
        assert not hasattr(builtins, SENTINEL)


async def test_a_signed_package_under_a_name_that_it_does_not_provide_is_refused() -> None:
    label, _ = split("", naughty(KEY))
    async with backbone("one") as one:
        await one.packages.publish(naughty(KEY))
        await one.registry.set(f"{TEMPLATES}echo", label)
        with pytest.raises(BadPackage, match="provides naughty"):
            await one.channel("x", "echo")
        assert not hasattr(builtins, SENTINEL)


async def test_a_package_with_a_part_missing_is_refused_and_can_be_published_again() -> None:
    async with backbone("one") as one:
        label = await one.packages.publish(echo(KEY))
        await one.registry.delete(f"{TEMPLATE_FILES}{label.manifest.files[0].digest.hex()}/0")
        with pytest.raises(BadPackage, match="lacks a part"):
            await one.channel("hills", "echo")
        await one.packages.publish(echo(KEY))
        assert (await one.channel("hills", "echo")).template == "echo"


async def test_a_template_that_nobody_published_is_unknown_as_before() -> None:
    async with backbone("one") as one:
        for name in ("multicats", "two words", "x" * 300):
            with pytest.raises(UnknownTemplate):
                await one.channel("x", name)


async def test_what_is_altered_is_not_even_published() -> None:
    async with backbone("one") as one:
        with pytest.raises(Altered):
            await one.packages.publish(naughty(KEY)[:-1])
        assert await one.packages.list() == {}


def test_a_key_that_is_none_fails_at_start_and_is_named() -> None:
    with pytest.raises(ConfigError, match=r"trust\.keys.*nonsense"):
        connect(trust=["nonsense"])


# while channels run


async def test_an_installed_template_is_never_replaced() -> None:
    source = echo_files()["__init__.py"].replace(b'name = "echo"', b'name = "loop"')
    async with backbone("one") as one:
        installed = one.templates["loop"]
        await one.packages.publish(pack("mine", "1", ["loop"], {"__init__.py": source}, KEY))
        await one.channel("x", "loop")
        assert one.templates["loop"] is installed
        assert one.packages.loaded == {}


async def test_a_newer_version_waits_for_a_restart_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with backbone("one") as one:
        await one.packages.publish(echo(KEY, "1.0"))
        await one.channel("hills", "echo")
        running = one.templates["echo"]
        with caplog.at_level(logging.WARNING, "gossamer"):
            await one.packages.publish(echo(KEY, "1.1", words=b"NEW = True\n"))
            await until(lambda: bool(caplog.records))
        assert "version 1.1 of template 'echo'; this node runs 1.0" in caplog.text
        await one.channel("valleys", "echo")
        assert one.templates["echo"] is running


async def test_frames_of_a_template_that_is_not_to_be_had_are_held_within_bounds_and_asked_for_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with backbone("one") as one, backbone("two", one, trust=()) as two:
        await linked(two, "one")
        await one.packages.publish(echo(KEY))
        channel = await one.channel("hills", "echo")
        for number in range(200):
            await channel.publish(b"%d" % number)
            await channel.drain()
        await until(lambda: two.drops.get("unknown channel", 0) > 100 and "template not loaded" in two.drops)
        assert two.drops["template not loaded"] == 1
        assert caplog.text.count("signed by") == 1

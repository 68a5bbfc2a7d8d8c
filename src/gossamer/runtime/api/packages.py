"""Template packages as a node holds them: ``node.packages``.

The registry carries them. ``template/NAME`` is the label: small, signed, checked against the node's trusted
keys before anything else is asked for. The files follow in pieces under their own digests, so that a package
that is being published anew never mixes with its earlier version. Only what is whole and signed by a trusted
key is imported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gossamer.core.errors import BadName, BadPackage, Closed, GossamerError, UnknownKey, UnknownTemplate
from gossamer.overlay.directory.pending_templates import MAX_WANTED, TEMPLATE_FILES, TEMPLATES, Got, Wants
from gossamer.overlay.directory.service import Directory
from gossamer.runtime.template_loader import load
from gossamer.security.package import File, Label, Package, Trust, read_files, read_label, read_package, split

if TYPE_CHECKING:
    from gossamer.runtime.api.node import Node
    from gossamer.runtime.host import Host

log = logging.getLogger("gossamer")

PIECE = 16 * 1024
"""Bytes of a file in one item of the registry: fits every transport, and leaves room for other items."""


class NodePackages:
    """Gets templates that the node does not have, and publishes packages.

    loaded
        Labels of the packages that templates of this node came from, by template. A template that is here
        stays until the node restarts, also when the registry has a newer package: no channel changes its
        protocol while it runs.
    """

    def __init__(self, node: Node, trust: Trust) -> None:
        self.loaded: dict[str, Label] = {}
        self._node = node
        self._trust = trust
        self._host: Host | None = None
        self._loading: dict[str, asyncio.Future[None]] = {}
        self._said: dict[str, str] = {}
        """The last complaint about each template, to be said once."""

    def start(self, host: Host) -> None:
        """From now on get what channels of this node wait for."""
        self._host = host
        host.follow(Directory.name, Wants(), lambda reply: self._wanted(host, reply.value))

    # getting

    async def need(self, template: str) -> None:
        """Have a template here; raises UnknownTemplate, BadPackage or NoAnswer."""
        if template in self._node.templates:
            return
        if self._host is None or self._host.closed:
            raise Closed(f"node {self._node.name!r}")
        loading = self._loading.get(template)
        if loading is None:
            loading = self._loading[template] = asyncio.get_running_loop().create_future()
            self._host.spawn(self._load(self._host, template, loading))
        await asyncio.shield(loading)

    async def _load(self, host: Host, template: str, loading: asyncio.Future[None]) -> None:
        try:
            package = await self._fetch(template)
            label = package.label
            for name in self._node.templates.add(load(package)):
                self.loaded[name] = label
                log.info("template %s is here: %s", name, self._described(label))
                await host.ask(Directory.name, Got(name))
            loading.set_result(None)
        except GossamerError as error:
            loading.set_exception(error)
        finally:
            del self._loading[template]
            if not loading.done():
                loading.set_exception(Closed(f"node {self._node.name!r}"))

    async def _fetch(self, template: str) -> Package:
        registry = self._node.registry
        try:
            label = read_label(template, await registry.get(TEMPLATES + template))
        except (UnknownKey, BadName):
            raise UnknownTemplate(template, self._node.templates) from None
        self._trust.admit(template, label)
        manifest = label.manifest
        if template not in manifest.templates:
            raise BadPackage(template, f"what stands under its name provides {', '.join(manifest.templates)}")
        contents = {}
        for file in manifest.files:
            try:
                contents[file.path] = b"".join([await registry.get(key) for key in _keys(file)])
            except UnknownKey:
                reason = f"the registry lacks a part of {file.path!r}; publish the package again"
                raise BadPackage(template, reason) from None
        return read_files(template, label, contents)

    def _wanted(self, host: Host, template: str) -> None:
        if template in self.loaded:
            host.spawn(self._compare(template))
        elif template not in self._node.templates:
            host.spawn(self._get(host, template))

    async def _get(self, host: Host, template: str) -> None:
        """Get what channels wait for, and tell them how it ended."""
        try:
            await self.need(template)
        except Closed:
            return
        except GossamerError as error:
            host.faults["template not loaded"] += 1
            self._say(template, str(error))
            await host.ask(Directory.name, Got(template, str(error)))

    async def _compare(self, template: str) -> None:
        """There is another package of a template that runs here."""
        try:
            label = read_label(template, await self._node.registry.get(TEMPLATES + template))
            self._trust.admit(template, label)
        except GossamerError:
            return
        here = self.loaded[template]
        if label.digest != here.digest:
            ours, theirs = here.manifest.version, label.manifest.version
            self._say(
                template,
                f"the registry has version {theirs} of template {template!r}; "
                f"this node runs {ours} until it is restarted",
            )

    def _say(self, template: str, complaint: str) -> None:
        if self._said.get(template) != complaint:
            if len(self._said) >= MAX_WANTED:
                self._said.clear()
            self._said[template] = complaint
            log.warning("%s", complaint)

    def _described(self, label: Label) -> str:
        manifest = label.manifest
        signer = self._trust.admit(manifest.name, label)
        return f"package {manifest.name} {manifest.version}, signed by {signer.line}"

    # publishing

    async def publish(self, package: bytes) -> Label:
        """Put a signed package into the registry, for all nodes that trust its key; raises BadPackage."""
        checked = read_package("to be published", package)
        registry = self._node.registry
        for file in checked.label.manifest.files:
            content = checked.files[file.path]
            for number, key in enumerate(_keys(file)):
                await registry.set(key, content[number * PIECE : (number + 1) * PIECE])
        # labels last: who sees one finds all that it describes
        label, _ = split("to be published", package)
        for template in checked.label.manifest.templates:
            await registry.set(TEMPLATES + template, label)
        return checked.label

    async def list(self) -> dict[str, Label | GossamerError]:
        """What the registry has, by template: the label, or why it is none."""
        found: dict[str, Label | GossamerError] = {}
        for item in await self._node.registry.list(TEMPLATES):
            template = item.key.removeprefix(TEMPLATES)
            try:
                found[template] = read_label(template, item.value or b"")
            except GossamerError as error:
                found[template] = error
        return found


def _keys(file: File) -> Iterator[str]:
    """Where the pieces of a file stand in the registry."""
    return (f"{TEMPLATE_FILES}{file.digest.hex()}/{number}" for number in range(-(-file.size // PIECE)))

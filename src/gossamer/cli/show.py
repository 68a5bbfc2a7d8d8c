"""``gossamer templates``: what is installed and which QoS options it supports, read from the code."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.table import Column, Table

from gossamer import catalog
from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.core.errors import ConfigError, UnknownTemplate
from gossamer.core.qos import QOS_OPTIONS


def described() -> list[dict[str, Any]]:
    """Every installed template as its docstring describes it, and its settings; a broken one is said so."""
    rows = []
    installed = catalog.templates()
    for name in installed:
        try:
            template = installed[name]
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            continue
        settings = template.settings_type
        defaults = {field: getattr(settings(), field) for field in settings.__struct_fields__}
        rows.append({"name": name, **template.described(), "settings": defaults})
    return rows


def templates(as_json: Json = False) -> None:
    """List the templates: name, promise, what an acknowledgement means, cost and needs."""
    rows = described()
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("template", "promises", "acknowledged", "costs", "needs", "settings", show_lines=True)
    for row in rows:
        settings = "\n".join(f"{key}={value}" for key, value in row["settings"].items())
        said = (row[word] for word in ("promises", "acknowledged", "costs", "needs"))
        table.add_row(marked(row["name"]), *said, settings)
    screen().print(table)


def template(name: str, as_json: Json = False) -> None:
    """Show one template; raises UnknownTemplate."""
    rows = {row["name"]: row for row in described()}
    if name not in rows:
        raise UnknownTemplate(name, rows)
    row = rows[name]
    if as_json:
        print(json.dumps(row))
        return
    print(f"{name}: {row['summary']}")
    for word in ("promises", "acknowledged", "costs", "needs"):
        print(f"{word.capitalize()}: {row[word]}")
    for key, value in row["settings"].items():
        print(f"  {key} = {value}")


def qos(as_json: Json = False) -> None:
    """Show which template supports which option of quality of service; it refuses the other options."""
    installed = catalog.templates()
    rows = [
        {
            "option": option.name,
            "on": list(option.on),
            "meaning": option.meaning,
            "supported": {name: option.supported_by(template) for name, template in installed.items()},
        }
        for option in QOS_OPTIONS.values()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(Column("option", no_wrap=True), "on", "supported by", "meaning")
    for option in QOS_OPTIONS.values():
        able = [name for name, template in installed.items() if option.supported_by(template)]
        by = "all" if len(able) == len(installed) else ", ".join(able) or "none"
        table.add_row(marked(option.name), ", ".join(option.on), by, option.meaning)
    screen().print(table)

"""``gossamer templates``: what is installed and which wishes it keeps, read from the code."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.table import Column, Table

from gossamer import catalog
from gossamer.cli.node import Json
from gossamer.cli.screen import marked, screen
from gossamer.core.errors import ConfigError
from gossamer.core.wishes import WISHES


def described() -> list[dict[str, Any]]:
    """Every installed template with its promise, cost, needs and settings; a broken one is said so."""
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
    """List the templates: name, promise, cost and needs."""
    rows = described()
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("template", "promises", "costs", "needs", "settings", show_lines=True)
    for row in rows:
        settings = "\n".join(f"{key}={value}" for key, value in row["settings"].items())
        table.add_row(marked(row["name"]), row["promises"], row["costs"], row["needs"], settings)
    screen().print(table)


def wishes(as_json: Json = False) -> None:
    """Show which template keeps which wish; what it does not keep it refuses."""
    installed = catalog.templates()
    rows = [
        {
            "wish": wish.name,
            "on": list(wish.on),
            "meaning": wish.meaning,
            "kept": {name: wish.kept_by(template) for name, template in installed.items()},
        }
        for wish in WISHES.values()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(Column("wish", no_wrap=True), "on", "kept by", "meaning")
    for wish in WISHES.values():
        able = [name for name, template in installed.items() if wish.kept_by(template)]
        by = "all" if len(able) == len(installed) else ", ".join(able) or "none"
        table.add_row(marked(wish.name), ", ".join(wish.on), by, wish.meaning)
    screen().print(table)

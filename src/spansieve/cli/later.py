"""Groups of commands that are loaded when one of them is asked for: nobody waits for what half of all commands need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

LATER = {
    "benchmark": "Measure speed, ours beside the peers', and what single ideas are worth.",
    "reproduce": "Make the paper's tables and figures again: a page, a CSV and a plot each.",
}


class Later(TyperGroup):
    """The commands of the module with the group's name."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, help=LATER[name], no_args_is_help=True, rich_markup_mode="rich")

    def list_commands(self, ctx: Any) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        if not self.commands:
            self.commands = typer.main.get_group(import_module(f"spansieve.cli.{self.name}").app).commands


class WithLater(TyperGroup):
    """A group that has these among its own commands, behind them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {**self.commands, **{name: Later(name) for name in LATER}}

"""Screens of the plugin in each view, drawn and compared with the golden files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from herodotus_cli.render import balance, pending, plain_text, terminal, workload
from herodotus_cli.render.screen_elements import Block, ViewOptions
from tests.cli.scenes import (
    NOW,
    Scene,
)
from tests.endpoint.service import API

GOLDEN = Path(__file__).parents[1] / "cli/render/golden"
VIEWS = {
    "piped": ViewOptions(NOW),
    "40": ViewOptions(NOW, width=40),
    "80": ViewOptions(NOW, width=80),
    "200": ViewOptions(NOW, width=200),
    "wide-piped": ViewOptions(NOW, wide=True),
    "wide-80": ViewOptions(NOW, width=80, wide=True),
}


def drawn(scene: Scene, view: ViewOptions, *, color: bool = False) -> str:
    blocks = scene.screen(scene.answer, view)
    return plain_text.draw(blocks, view) if view.piped else terminal.draw(blocks, view, color=color)


def expect(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HERODOTUS_REGENERATE"):
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; HERODOTUS_REGENERATE=1 writes it anew"


SURVEY_SCREENS: dict[str, tuple[str, Callable[[Any, ViewOptions], list[Block]]]] = {
    "pending": (f"{API}/pendingpods", pending.build_screen),
    "workload": (f"{API}/namespaces/shop/workloadplacements/deployment.checkout", workload.build_screen),
    "balance": (f"{API}/balances", balance.build_screen),
    "balance-weights": (f"{API}/balances?weights=NodeResourcesFit=0,ImageLocality=9", balance.build_screen),
}

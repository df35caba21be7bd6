"""The agent `congestion`: prefers nodes whose network is little used, according to an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec

from herodotus_agents.agent import Agent, AgentSettings
from scheduler.engine.formulas import measurements
from scheduler.engine.plugins.congestion import Congestion


class CongestionSettings(AgentSettings, frozen=True):
    """Settings of the congestion agent.

    `factorMax` is the congestion factor, in per cent of the network capacity in use, at which a node scores 0. Factors
    older than `maxAgeS` seconds are ignored.
    """

    variables: ClassVar[Mapping[str, str]] = {"CONGESTION_FACTOR_MAX": "factor_max"}

    factor_max: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_age_seconds: Annotated[float, msgspec.Meta(gt=0)] = msgspec.field(
        default=measurements.DEFAULT_LIMIT_S, name="maxAgeS"
    )


AGENT: Final = Agent({"congestion": Congestion}, CongestionSettings)

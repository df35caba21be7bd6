"""Validation of what plugins return, and its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from herodotus_record import reasons
from herodotus_record.kubernetes_version import DEFAULT_VERSION, KubernetesVersion
from herodotus_record.model import Verdict
from scheduler.engine.framework.verdicts import ERRORS, Deferred, Pending, Wait, error

Result = TypeVar("Result")


class PluginError(Exception):
    """The error that ends an attempt.

    A plugin raised an exception, or returned a result that its extension point does not allow.
    """


def join_reasons(verdict: Verdict, version: KubernetesVersion = DEFAULT_VERSION) -> str:
    """Return the message of a verdict: its reasons in the words of kube-scheduler `version`, joined with commas."""
    return ", ".join(reasons.format_reason(reason, version) for reason in verdict.reasons)


def filter_status(plugin: str, verdict: Verdict) -> Verdict:
    """Return a verdict that rejects a node as kube-scheduler reports it.

    Error, Wait and Skip, which mean an error at Filter, become an error whose message names the plugin. Any other
    verdict is returned unchanged.
    """
    if verdict.code not in ERRORS:
        return verdict
    return error(f'running "{plugin}" filter plugin: {join_reasons(verdict)}')


def call_plugin(call: Callable[[], Result]) -> Result | Verdict:
    """Call a plugin's method and return its result, or an error verdict if it raises or returns no valid result."""
    try:
        return check_result(call())
    except (Exception, SystemExit) as e:
        return error(str(e))


def check_result(result: Result) -> Result:
    """Return a plugin's result unchanged.

    Raises TypeError if it is no verdict, Wait, Pending or Deferred, as from a method without `return`.
    """
    if not isinstance(result, Verdict | Wait | Pending | Deferred):
        raise TypeError(f"answered {result!r}, which is no Verdict")
    return result

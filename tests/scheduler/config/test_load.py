"""A configuration file, or one line that says what is wrong with it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import ConfigError, Configuration, ProfileConfig, load, parse_config
from scheduler.config.types import ClientConnection, LeaderElectionConfiguration
from scheduler.engine.objects import times
from tests.support.configurations import HEAD, config_error


def test_everything_has_a_default() -> None:
    assert parse_config(HEAD) == Configuration()
    assert Configuration().profiles == (ProfileConfig(scheduler_name="herodotus-scheduler"),)


@pytest.mark.parametrize(
    "text",
    [
        "profiles: null",
        "profiles: []",
        "parallelism: null",
        "leaderElection: {resourceName: '', leaseDuration: 0s}",
        "clientConnection: {qps: 0, burst: 0, contentType: ''}",
    ],
)
def test_null_and_empty_fields_get_their_defaults(text: str) -> None:
    assert parse_config(HEAD + text) == Configuration()


def test_a_single_profile_without_a_name_gets_the_default_one() -> None:
    assert parse_config(HEAD + "profiles: [{percentageOfNodesToScore: 5}]").profiles == (
        ProfileConfig(scheduler_name="herodotus-scheduler", percentage_of_nodes_to_score=5),
    )
    named = parse_config(HEAD + "profiles: [{}]", default_name="default-scheduler")
    assert named.profiles[0].scheduler_name == "default-scheduler"


def test_every_written_field_is_loaded() -> None:
    text = """
parallelism: 4
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
leaderElection: {leaderElect: false, leaseDuration: 1m30s}
clientConnection: {qps: 1.5, burst: 7, kubeconfig: /k}
"""
    assert parse_config(HEAD + text) == Configuration(
        parallelism=4,
        pod_initial_backoff_seconds=2,
        pod_max_backoff_seconds=20,
        leader_election=LeaderElectionConfiguration(leader_elect=False, lease_duration="1m30s"),
        client_connection=ClientConnection(qps=1.5, burst=7, kubeconfig="/k"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping with apiVersion and kind"),
        ("- a", "expected a mapping with apiVersion and kind"),
        (
            "kind: X",
            "expected apiVersion kubescheduler.config.k8s.io/v1 and kind KubeSchedulerConfiguration, found None X",
        ),
        (
            "apiVersion: {a: b}\nkind: KubeSchedulerConfiguration",
            "expected apiVersion kubescheduler.config.k8s.io/v1 and kind KubeSchedulerConfiguration,"
            " found {'a': 'b'} KubeSchedulerConfiguration",
        ),
        ("a: [", "line 2: did not find expected node content"),
        ("a: &a [*a]", "line 1: anchor 'a' value contains itself"),
        ("? [a]\n: b", "not YAML: unhashable type: 'list'"),
        (
            "a: \x00",
            'not YAML: unacceptable character #x0000: control characters are not allowed in "<unicode'
            ' string>", position 3',
        ),
    ],
)
def test_no_configuration_at_all(text: str, message: str) -> None:
    assert config_error(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("paralelism: 4", 'unknown field "paralelism"'),
        ("leaderElection: {leaseDurationn: 1s}", 'unknown field "leaderElection.leaseDurationn"'),
        ("profiles: [{plugins: {filters: {}}}]", 'unknown field "profiles[0].plugins.filters"'),
        (
            "profiles: [{plugins: {filter: {enabled: [{weight: 1}]}}}]",
            "profiles[0].plugins.filter.enabled[0].name: Required value",
        ),
        ("parallelism: many", "parallelism: Expected `int`, got `str`"),
        ("parallelism: 1.5", "parallelism: Expected `int`, got `float`"),
        ("parallelism: 3000000000", "parallelism: Expected `int` <= 2147483647"),
        ("parallelism: 1:30", "parallelism: Expected `int`, got `str`"),
        ("profiles: {}", "profiles: Expected `array`, got `object`"),
        ("leaderElection: {leaseDuration: 15}", "leaderElection.leaseDuration: Expected `str`, got `int`"),
        ("parallelism: 1\nparallelism: 2", 'line 4: key "parallelism" already set in map'),
        ("profiles:\n- schedulerName: a\n  schedulerName: b", 'line 5: key "schedulerName" already set in map'),
        ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        ("percentageOfNodesToScore: 101", "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]"),
        (
            "profiles: [{percentageOfNodesToScore: -1}]",
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        (
            "podMaxBackoffSeconds: 0",
            "podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        ("clientConnection: {burst: -1}", "clientConnection.burst: Invalid value: -1: must be non-negative"),
        (
            "extenders: [{urlPrefix: x, prioritizeVerb: p}]",
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            "extenders: [{urlPrefix: x, bindVerb: b}, {urlPrefix: y, bindVerb: b}]",
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ),
        (
            "extenders: [{urlPrefix: x, httpTimeout: soon}]",
            "extenders[0].httpTimeout: Invalid value: \"soon\": 'soon' is not a duration such as 15s or 1m30s",
        ),
        (
            "extenders: [{urlPrefix: x, managedResources: [{name: cpu}]}]",
            'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
        ),
        ("profiles: [{schedulerName: ''}]", "profiles[0].schedulerName: Required value"),
        ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"),
        ("profiles: [{schedulerName: a}, {schedulerName: a}]", 'profiles[1].schedulerName: Duplicate value: "a"'),
        (
            "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
            'profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"',
        ),
        (
            "leaderElection: {leaseDuration: soon}",
            "leaderElection.leaseDuration: Invalid value: \"soon\": 'soon' is not a duration such as 15s or 1m30s",
        ),
        (
            "leaderElection: {retryPeriod: -1s}",
            'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero',
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            "parallelism: -1\npercentageOfNodesToScore: 101",
            "[parallelism: Invalid value: -1: should be an integer value greater than zero,"
            " percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]]",
        ),
    ],
)
def test_one_line_for_what_is_wrong(text: str, message: str) -> None:
    assert config_error(HEAD + text) == message


def test_lease_is_ignored_without_leader_election() -> None:
    assert not parse_config(
        HEAD + "leaderElection: {leaderElect: false, leaseDuration: 1s}"
    ).leader_election.leader_elect


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "No such file or directory"),
        (lambda p: p.mkdir(), "Is a directory"),
        (lambda p: p.write_bytes(b"\xff\xfe\xfa"), "not UTF-8 text: "),
        (lambda p: p.write_text(HEAD + "x: 1"), 'unknown field "x"'),
    ],
    ids=["missing", "directory", "binary", "wrong"],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "config.yaml"
    make(path)
    with pytest.raises(ConfigError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: {message}")
    assert "\n" not in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    said: list[str] = []
    for each in (text, HEAD + text):
        try:
            parse_config(each)
        except ConfigError as e:
            said.append(str(e))
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("1h0m0.5s", 3600.5),
        ("0", 0),
        ("+2s", 2),
        ("-1s", -1),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        (".5s", 0.5),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert times.parse_seconds(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1s2", "--1s", "1e3s", "."])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 15s or 1m30s"):
        times.parse_seconds(text)

"""Job variables: what is accepted, what is refused and in which words, and that values stay as they are."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import ANY

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.job import Job, check_names, job_from_json, parse_job, variable_names
from ddp_play.planning.job_values import parse_seconds
from tests.unit.build import job

GOOD: dict[str, Any] = {"command": ["python", "train.py"]}


def refusal(**values: Any) -> str:
    with pytest.raises(UsageError) as caught:
        parse_job({**GOOD, **values})
    assert "ansible-doc" in caught.value.hint
    return caught.value.message


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no command", {"command": []}, "ddp_job_command is empty"),
    ("an empty word first", {"command": ["", "x"]}, "ddp_job_command is empty"),
    ("a command that is a mapping", {"command": {"a": 1}}, "ddp_job_command"),
    ("docker without image", {"runtime": "docker"}, "ddp_job_runtime is docker and ddp_job_image is not set"),
    (
        "unknown runtime",
        {"runtime": "podman"},
        "ddp_job_runtime: input should be 'auto', 'docker', 'apptainer', 'pyxis' or 'process'",
    ),
    ("apptainer without image", {"runtime": "apptainer"}, "ddp_job_runtime is apptainer and ddp_job_image is not set"),
    ("pyxis without image", {"runtime": "pyxis"}, "ddp_job_runtime is pyxis and ddp_job_image is not set"),
    ("a relative path for pyxis", {"runtime": "pyxis", "image": "a.sqsh"}, "ddp_job_image: a.sqsh is no absolute path"),
    ("an image of Docker's for Apptainer", {"runtime": "apptainer", "image": "a:1"}, "write docker://a:1"),
    ("a scheme that nobody reads", {"image": "library://a"}, "ddp_job_image: library://a has the scheme library"),
    ("zero ranks", {"ranks_per_host": 0}, "ddp_job_ranks_per_host: is `auto` or a number from 1 up, not 0"),
    ("minus one rank", {"ranks_per_host": -1}, "from 1 up, not -1"),
    ("minus one as text", {"ranks_per_host": "-1"}, "from 1 up, not -1"),
    ("ranks in words", {"ranks_per_host": "two"}, "from 1 up, not 'two'"),
    ("half a rank", {"ranks_per_host": 1.5}, "from 1 up, not 1.5"),
    ("true as ranks", {"ranks_per_host": True}, "from 1 up, not True"),
    ("port range in words", {"port_range": "any"}, "ddp_job_port_range: 'any' is not a port range"),
    ("port range upside down", {"port_range": "30000-29000"}, "30000-29000 is not within 1024-65535"),
    ("low port", {"port_range": 80}, "80-80 is not within 1024-65535"),
    ("high port", {"port_range": [29500, 70000]}, "29500-70000 is not within 1024-65535"),
    ("one end of a range", {"port_range": [29500]}, "ddp_job_port_range"),
    ("duration in words", {"grace": "soon"}, "ddp_job_grace: 'soon' is not a duration; write seconds or 90s"),
    ("negative duration", {"timeout": -1}, "ddp_job_timeout: input should be greater than or equal to 0 (it is -1"),
    ("negative duration as text", {"timeout": "-5m"}, "ddp_job_timeout: '-5m' is not a duration"),
    ("true as duration", {"lease": True}, "ddp_job_lease: is a number of seconds"),
    ("no hosts", {"hosts": 0}, "ddp_job_hosts"),
    ("every host lost at once", {"host_timeout": 0}, "ddp_job_host_timeout: input should be greater than 0"),
    ("a negative number of hosts", {"hosts": -1}, "ddp_job_hosts"),
    ("hosts upside down", {"hosts": "4..2"}, "ddp_job_hosts"),
    ("hosts in words", {"hosts": "some"}, "ddp_job_hosts: 'some' is not a number of hosts; write all, 4, 2..4 or 2.."),
    ("name with a slash", {"name": "a/b"}, "ddp_job_name"),
    ("backend that does not exist", {"backend": "goo"}, "ddp_job_backend"),
    ("init method that does not exist", {"init_method": "smoke"}, "ddp_job_init_method"),
    ("variable name with a dash", {"env": {"A-B": "c"}}, "ddp_job_env has 'A-B', which is not a valid name"),
    ("variable name with =", {"env": {"A=B": "c"}}, "ddp_job_env has 'A=B'"),
    ("empty variable name", {"env": {"": "c"}}, "ddp_job_env has ''"),
    ("a list as a variable's value", {"env": {"A": [1]}}, "ddp_job_env.A: input should be a valid string (it is [1])"),
    ("env as a list", {"env": ["A=1"]}, "ddp_job_env: input should be a valid dictionary"),
    ("NUL in a value", {"env": {"A": "x\0y"}}, "ddp_job_env: A holds a NUL byte"),
    ("NUL in the command", {"command": ["echo", "x\0y"]}, "ddp_job_command holds a NUL byte"),
    ("a hook that is a mapping", {"hook": {"a": 1}}, "ddp_job_hook"),
    ("no samples in words", {"samples": False}, "ddp_job_samples: is a number of seconds"),
    (
        "ids of ranks under torchrun",
        {"wandb_resume": True, "launcher": "torchrun"},
        "ddp_job_wandb_resume gives each rank an id, which torchrun cannot",
    ),
    ("mount without target", {"mounts": ["/data"]}, "ddp_job_mounts: '/data' is not source:target"),
    ("relative mount", {"mounts": ["data:/data"]}, "ddp_job_mounts.0"),
    ("mount with a comma", {"mounts": ["/a,readonly:/b"]}, "ddp_job_mounts.0"),
    ("mount mode that does not exist", {"mounts": ["/a:/b:rx"]}, "'/a:/b:rx' is not source:target"),
    ("mount with a misspelt key", {"mounts": [{"source": "/a", "traget": "/b"}]}, "ddp_job_mounts.0"),
    ("user by name", {"user": "ops"}, "ddp_job_user"),
    ("memory in words", {"memory": "lots"}, "ddp_job_memory"),
    ("negative cpus", {"cpus": -1}, "ddp_job_cpus: input should be greater than or equal to 0"),
    ("no source allowed at all", {"source_max_mib": 0}, "ddp_job_source_max_mib"),
    ("signal that nobody sends", {"signal": "STOP"}, "ddp_job_signal"),
]


@pytest.mark.parametrize(("values", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_values(values: dict[str, Any], words: str) -> None:
    assert words in refusal(**values)


def test_all_mistakes_are_told_at_once() -> None:
    message = refusal(ranks_per_host=0, grace="soon", backend="goo")
    assert [line.split(":")[0] for line in message.splitlines()] == [
        "ddp_job_ranks_per_host",
        "ddp_job_backend",
        "ddp_job_grace",
    ]


def test_a_command_is_needed() -> None:
    with pytest.raises(UsageError, match="ddp_job_command is not set"):
        parse_job({})


GOOD_VALUES: list[tuple[str, Any, str, Any]] = [
    ("command", "python train.py --lr '1 e'", "command", ("python", "train.py", "--lr", "1 e")),
    ("command", ["python", 3, 0.5], "command", ("python", "3", "0.5")),
    ("ranks_per_host", "4", "ranks_per_host", 4),
    ("ranks_per_host", "auto", "ranks_per_host", "auto"),
    ("hosts", "all", "hosts", (0, 0)),
    ("hosts", 4, "hosts", (4, 4)),
    ("hosts", "4", "hosts", (4, 4)),
    ("hosts", "2..4", "hosts", (2, 4)),
    ("hosts", "2..", "hosts", (2, 0)),
    ("port_range", "29500-29600", "port_range", (29500, 29600)),
    ("port_range", 29500, "port_range", (29500, 29500)),
    ("port_range", "29500", "port_range", (29500, 29500)),
    ("port_range", [29500, 29600], "port_range", (29500, 29600)),
    (
        "env",
        {"A": 1, "B": True, "C": 0.5, "D": None, "E": False},
        "env",
        {"A": "1", "B": "1", "C": "0.5", "D": None, "E": "0"},
    ),
    ("image", "team/train:2", "chosen_runtime", "docker"),
    ("image", "", "chosen_runtime", "process"),
    ("image", "/shared/train.sif", "chosen_runtime", "apptainer"),
    ("image", "docker://team/train:2", "chosen_runtime", "apptainer"),
    ("image", "/shared/train.sqsh", "chosen_runtime", "apptainer"),
    ("user", "1000:1000", "user", "1000:1000"),
    ("memory", "16g", "memory", "16g"),
]


@pytest.mark.parametrize(("name", "value", "attribute", "expected"), GOOD_VALUES)
def test_good_values(name: str, value: Any, attribute: str, expected: Any) -> None:
    assert getattr(parse_job({**GOOD, name: value}), attribute) == expected


def test_mounts_as_text_and_as_mapping_are_the_same() -> None:
    texts = parse_job({**GOOD, "mounts": ["/data:/d:ro", "/scratch:/s"]})
    mappings = parse_job(
        {
            **GOOD,
            "mounts": [{"source": "/data", "target": "/d", "read_only": True}, {"source": "/scratch", "target": "/s"}],
        }
    )
    assert texts.mounts == mappings.mounts


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400), (" 1.5 m ", 90), (0, 0), (0.5, 0.5)],
)
def test_durations(text: Any, seconds: float) -> None:
    assert parse_seconds(text) == seconds
    assert parse_job({**GOOD, "max_duration": text}).max_duration == seconds


VALUES = [
    "{{ not_a_template }}",
    "{% raw %}",
    'it\'s "quoted" \\ $HOME `date`',
    "first\nsecond\n\tthird\n",
    "\r\n",
    "größe λ 漢字 \N{GRINNING FACE}",
    " leading and trailing ",
    "",
    "<run_id> {rank}",
    "a=b=c # d",
]


@pytest.mark.parametrize("value", VALUES)
def test_values_of_variables_stay_as_they_are(value: str) -> None:
    assert parse_job({**GOOD, "env": {"V": value}}).env == {"V": value}


def test_a_job_survives_json() -> None:
    """The supervisor reads the job that the planner wrote."""
    made = parse_job(
        {**GOOD, "env": {"A": None, "B": "x\ny"}, "mounts": ["/a:/b:ro"], "grace": "2m", "hosts": "2..4", "image": "i"}
    )
    data = made.model_dump(mode="json")
    assert Job.model_validate({**data, "hosts": "2..4"}) == made


def test_a_job_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse_job(GOOD).image = "other"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ddp_job_imgae", "unknown variable ddp_job_imgae; did you mean ddp_job_image?"),
        ("ddp_job_comand", "did you mean ddp_job_command?"),
        ("ddp_job_rank_per_host", "did you mean ddp_job_ranks_per_host?"),
        ("ddp_job_secret", "did you mean ddp_job_secrets?"),
        ("ddp_slot", "did you mean ddp_slots?"),
        ("ddp_shareddir", "did you mean ddp_shared_dir?"),
        ("ddp_zzzzzzzz", "unknown variable ddp_zzzzzzzz"),
    ],
)
def test_misspelt_names_get_the_nearest(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_names({"ddp_job_command": "", name: ""})
    assert caught.value.message == words or caught.value.message.endswith("; " + words)


def test_every_known_name_passes() -> None:
    check_names({f"ddp_job_{name}": "" for name in variable_names()})
    check_names(dict.fromkeys(("ddp_slots", "ddp_interface", "ddp_shared_dir", "ddp_python"), ""))
    check_names(dict.fromkeys(("ddp_proxy", "ddp_no_proxy", "ddp_mirror_url", "ddp_disrupt"), ""))
    check_names({})


def test_every_unknown_name_is_told() -> None:
    with pytest.raises(UsageError) as caught:
        check_names({"ddp_b": "", "ddp_a": "site.yml:4"})
    assert [line.split(";")[0] for line in caught.value.message.splitlines()] == [
        "site.yml:4: unknown variable ddp_a",
        "unknown variable ddp_b",
    ]


@pytest.mark.parametrize(
    ("place", "wanted"), [("", True), ("hosts.json", True), ("hosts2", True), ("site.yml:4", False)]
)
def test_inventory_check_is_named_where_the_line_is_not_known(place: str, wanted: bool) -> None:
    with pytest.raises(UsageError) as caught:
        check_names({"ddp_a": place})
    assert ("inventory check" in caught.value.hint) is wanted


def test_a_wrong_value_is_told_with_its_place() -> None:
    with pytest.raises(UsageError) as caught:
        parse_job({**GOOD, "restarts": "many", "grace": "soon"}, {"ddp_job_restarts": "train.yml:7"})
    assert [line.split(" ")[:2] for line in caught.value.message.splitlines()] == [
        ["ddp_job_grace:", ANY],
        ["train.yml:7:", "ddp_job_restarts:"],
    ]


def test_the_job_comes_back_whole() -> None:
    made = job(restarts=2, restart_exit_codes=[75], hosts="2..4", spares=["h4"], port_range="30000-30010")
    assert job_from_json(json.loads(made.model_dump_json())) == made

"""Table of the verbs, and each one's summary for the list of them, read without an import of its module."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

HOSTS, JOBS, RUNS = "Hosts", "Jobs", "Runs"
MEASURE, REHEARSAL = "Measurements", "Rehearsal"


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its panel in the help, its module in this package, and the function or application there."""

    panel: str
    module: str
    attribute: str

    def summary(self) -> str:
        """First paragraph of its help: the function's docstring, or the application's `help`. Of 23 it takes 0.02 s."""
        source = Path(__file__).with_name(f"{self.module}.py").read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name == self.attribute:
                return _first_paragraph(ast.get_docstring(node))
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _names(node) == [self.attribute]:
                return _first_paragraph(_text_argument(node.value, "help"))
        raise ValueError(f"{self.module}.py defines no {self.attribute}")


VERBS = {
    "init": Verb(HOSTS, "init", "init"),
    "doctor": Verb(HOSTS, "doctor", "doctor"),
    "check": Verb(HOSTS, "check", "check"),
    "provision": Verb(HOSTS, "provision", "provision"),
    "verify": Verb(HOSTS, "provision", "verify"),
    "deprovision": Verb(HOSTS, "provision", "deprovision"),
    "reboot": Verb(HOSTS, "reboot", "reboot"),
    "run": Verb(JOBS, "run", "run"),
    "plan": Verb(JOBS, "plan", "plan"),
    "export": Verb(JOBS, "export", "export"),
    "session": Verb(JOBS, "session", "session"),
    "collectives": Verb(MEASURE, "collectives", "collectives"),
    "bench": Verb(MEASURE, "bench", "bench"),
    "ps": Verb(RUNS, "ps", "ps"),
    "top": Verb(RUNS, "top", "top"),
    "logs": Verb(RUNS, "logs", "logs"),
    "attach": Verb(RUNS, "attach", "attach"),
    "exec": Verb(RUNS, "execute", "execute"),
    "stop": Verb(RUNS, "stop", "stop"),
    "results": Verb(RUNS, "results", "results"),
    "report": Verb(RUNS, "report", "report"),
    "compare": Verb(RUNS, "compare", "compare_runs"),
    "metrics": Verb(RUNS, "metrics", "metrics"),
    "rm": Verb(RUNS, "rm", "rm"),
    "prune": Verb(RUNS, "prune", "prune"),
    "gc": Verb(RUNS, "gc", "gc"),
    "usage": Verb(RUNS, "usage", "usage"),
    "inventory": Verb(HOSTS, "inventory", "app"),
    "lab": Verb(REHEARSAL, "lab", "app"),
    "image": Verb(REHEARSAL, "image", "app"),
}


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _text_argument(call: ast.Call, name: str) -> str:
    values = [word.value for word in call.keywords if word.arg == name]
    return "".join(str(value.value) for value in values if isinstance(value, ast.Constant))


def _first_paragraph(text: str | None) -> str:
    return (text or "").partition("\n\n")[0].strip()

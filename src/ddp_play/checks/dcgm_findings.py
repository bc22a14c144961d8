"""The finding of NVIDIA's diagnostic: what the JSON of `dcgmi diag` says of each test and GPU. Pure.

Its form has no published schema. DCGM 3 has it below `DCGM GPU Diagnostic`, with `gpu_id`; DCGM 4 below
`DCGM Diagnostic`, with entities and a summary of each test. Both have a severity of each error; DCGM 2 had texts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks.dcgm_run import ANSWER, READING
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import ODD, CheckedHost, Fleet, NotRun, each, names, ok
from ddp_play.checks.host_users import used_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHECK = "dcgm diag"
ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")  # of DCGM 4, and before
FAIL, WARN, SKIP, PASS = "fail", "warn", "skip", "pass"
# DCGM_ERROR_MONITOR and DCGM_ERROR_CONFIG: jobs run, for example without persistence mode.
HARMLESS = (1, 5)
# What dcgmi says where it can make no diagnostic of this host, which nothing is broken on.
NOT_HERE = ("connect to host engine", "establish a connection", "homogeneous group", "unsupported gpu",
            "recommended driver")  # fmt: skip
MOST = 6  # tests in a text
TEXT = 240  # characters of a message of DCGM


@dataclass(frozen=True, slots=True)
class DcgmTest:
    """One test: its results as (GPU, status), and its errors as (text, severity or None)."""

    name: str
    results: tuple[tuple[str, str], ...]
    errors: tuple[tuple[str, int | None], ...]

    @property
    def status(self) -> str:
        """The worst result; empty if one is none that is known."""
        found = {status for _, status in self.results}
        if found & {FAIL, WARN}:
            return FAIL if FAIL in found else WARN
        if not found or not found <= {SKIP, PASS}:
            return ""
        return SKIP if SKIP in found else PASS

    @property
    def is_harmless(self) -> bool:
        """Whether DCGM itself says of all its errors that they are no fault of the hardware."""
        return self.status == WARN or (bool(self.errors) and all(severity in HARMLESS for _, severity in self.errors))

    def shown(self) -> str:
        """The test, the GPUs where it has its worst result, and what DCGM says."""
        where = names(dict.fromkeys(gpu for gpu, status in self.results if gpu and status == self.status), 8)
        said = " / ".join(list(dict.fromkeys(text for text, _ in self.errors))[:2])
        return f"{self.name}{f' on {where}' if where else ''}: {said[:TEXT] or self.status}"


def diagnostic(fleet: Fleet) -> Iterator[Finding]:
    """What DCGM finds on hosts that have it; nothing is said of others."""
    yield from each(fleet, CHECK, _judged)


def _judged(host: CheckedHost) -> Finding | None:
    if not host.known.gpus or not host.read(READING):
        return None
    if not host.dcgm and (users := used_by(host.known, host.readings)):
        raise NotRun(users, broken=True)
    answer = host.diagnosed(ANSWER)
    if answer.get("problem"):
        raise NotRun(str(answer["problem"]), broken=True)
    document, level = _document(answer), int(host.dcgm["level"])
    try:
        tests, version = _tests(document), _version(document)
    except ODD as error:
        raise NotRun(f"its JSON has an unknown form ({type(error).__name__}: {error})", broken=True) from None
    # DCGM 3 prints Fail also for a warning (HelperDisplayDiagResult); its exit code tells them apart
    is_counted = bool(answer["exit_code"]) or ROOTS[0] in document
    source = f"dcgmi diag -r {level} of DCGM {version}"
    return _finding(tests, source, is_counted=is_counted) or _passed(host, tests, answer)


def _finding(tests: tuple[DcgmTest, ...], source: str, *, is_counted: bool) -> Finding | None:
    """What failed or has a warning; None if nothing has. `is_counted`: DCGM counts a failed test as one."""
    bad = [test for test in tests if test.status in (FAIL, WARN)]
    if not bad:
        return None
    is_fail = is_counted and any(not test.is_harmless for test in bad)
    bad.sort(key=lambda test: test.is_harmless)
    return Finding(
        "", Status.FAIL if is_fail else Status.WARN, "; ".join(test.shown() for test in bad[:MOST]),
        "jobs fail, compute wrong values or are slow on such a GPU" if is_fail else "DCGM sees no fault of hardware",
        "do what DCGM says; have the GPU replaced if it comes back after a reset" if is_fail else "do what DCGM says",
        limit="no test fails", source=source, look=source.partition(" of ")[0],
    )  # fmt: skip


def _passed(host: CheckedHost, tests: tuple[DcgmTest, ...], answer: Mapping[str, Any]) -> Finding:
    """That all tests have passed. Raises NotRun if that is not certain."""
    if odd := [test.name for test in tests if not test.status]:
        raise NotRun(f"DCGM has no result of {names(odd)}", broken=True)
    skipped, passed = ([test.name for test in tests if test.status == status] for status in (SKIP, PASS))
    if answer["exit_code"]:
        raise NotRun(f"dcgmi ended with exit code {answer['exit_code']}, and names no failed test", broken=True)
    if not passed:
        raise NotRun(f"DCGM has run no test: {names(skipped) or 'none is in its output'}", broken=not tests)
    seen = {gpu for test in tests for gpu, _ in test.results if gpu.startswith("GPU ")}
    if seen and len(seen) < len(host.known.gpus):
        raise NotRun(f"DCGM has tested {len(seen)} of the host's {len(host.known.gpus)} GPUs", broken=True)
    return ok(f"level {host.dcgm['level']}: passed {names(passed, 12)}{_without(skipped)}")


def _without(skipped: list[str]) -> str:
    return f"; skipped {names(skipped, 12)}" if skipped else ""


def _document(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object that dcgmi printed; lines may stand before and after it. Raises NotRun."""
    output = str(answer["output"])
    try:
        document = json.loads(output[output.index("{") : output.rindex("}") + 1])
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        said = " ".join(f"{output} {answer.get('errors', '')}".split())[:TEXT] or "nothing"
        raise _no_diagnostic(f"dcgmi printed no JSON (exit code {answer['exit_code']}): {said}")
    return document


def _no_diagnostic(said: str) -> NotRun:
    return NotRun(said, broken=not any(text in said.lower() for text in NOT_HERE))


def _root(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(document[name] for name in ROOTS if isinstance(document.get(name), dict))


def _version(document: Mapping[str, Any]) -> str:
    places = (document.get("metadata") or {}, document, _root(document))
    return str(next((place["version"] for place in places if "version" in place), "(no version)"))


def _tests(document: Mapping[str, Any]) -> tuple[DcgmTest, ...]:
    """All tests. Raises NotRun if there was no diagnostic, and one of ODD where the document has another form."""
    if not any(isinstance(document.get(name), dict) for name in ROOTS):
        raise LookupError(f"none of {', '.join(ROOTS)}")
    root = _root(document)
    if said := root.get("runtime_error"):
        raise _no_diagnostic(" ".join(str(said).split())[:TEXT])
    rows = [test for category in root["test_categories"] for test in category["tests"] if test is not None]
    return tuple(_test(row) for row in rows)


def _test(row: Mapping[str, Any]) -> DcgmTest:
    """A test. Elements of lists may be null: those of tests and GPUs that had no part."""
    found = [one for one in [*(row.get("results") or ()), row.get("test_summary")] if one is not None]
    errors = [error for one in found for error in _errors(one.get("warnings"))]
    return DcgmTest(str(row["name"]), tuple((_place(one), _status(one["status"])) for one in found), tuple(errors))


def _status(said: str) -> str:
    return {"skipped": SKIP, "warning": WARN}.get(said.strip().lower(), said.strip().lower())


def _place(row: Mapping[str, Any]) -> str:
    """`GPU 3`; empty for what is about all of them."""
    if "entity_id" in row:
        return f"{row.get('entity_group', 'GPU')} {row['entity_id']}"
    gpus = str(row.get("gpu_id", row.get("gpu_ids", "")))
    return f"GPU {gpus}" if gpus.isdigit() else ""


def _errors(found: object) -> Iterator[tuple[str, int | None]]:
    """Errors of a result: a text, or a list of texts or of objects with a severity."""
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            severity = one.get("error_severity")
            said = one["warning"] if "warning" in one else one["warnings"]  # the latter in software tests of DCGM 3.3
            yield " ".join(str(said).split()), severity if isinstance(severity, int) else None
        elif one:
            yield " ".join(str(one).split()), None

"""Runs over HTTP: the list, curves, events, the report; stop and go on."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from clozeworks.engine.metrics import FILE as METRICS
from clozeworks.runs.folder import REPORT
from clozeworks.runs.state import read_state
from clozeworks.serve.endpoint import Call, Endpoint, RawAnswer, Stream
from clozeworks.serve.replies import NATIVE
from clozeworks.serve.workspace.processes import stop_run
from clozeworks.serve.workspace.run_records import WHOLE, parts_of, run_details
from clozeworks.serve.workspace.workspace import NotHere, Workspace
from clozeworks.storage.regular_files import read_regular

_LARGEST_REPORT = 64 << 20
_LAST_STEP = (1 << 53) - 1
# A report is HTML that lies on disk: whatever it holds, nothing of it runs or loads anything.
REPORT_HEADERS = {
    "content-security-policy": (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'"
    ),
    "x-frame-options": "SAMEORIGIN",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RunBody(_Body):
    """A run."""

    run: Annotated[str, Field(max_length=4_096)]


class CurveBody(RunBody):
    """Which curves of a run, and how finely."""

    part: Annotated[str, Field(max_length=4_096)] = ""
    series: str = Field("", max_length=10_000, description="Names, separated by commas.")
    columns: int = Field(800, ge=10, le=4_000, description="How many columns the chart has.")
    begin: int = Field(0, ge=0, le=_LAST_STEP)
    end: int = Field(_LAST_STEP, ge=0, le=_LAST_STEP)


def run_endpoints(workspace: Workspace) -> list[Endpoint]:
    """What can be asked about the runs of a workspace."""

    def listed(call: Call, body: None) -> Any:
        return {"runs": [workspace.record(*each) for each in workspace.runs().items()]}

    def details(call: Call, body: RunBody) -> Any:
        return {"run": body.run, **run_details(workspace.run(body.run))}

    def curves(call: Call, body: CurveBody) -> Any:
        return run_curves(workspace, body)

    def events(call: Call, body: None) -> Stream:
        return Stream(_events(workspace, call))

    def report(call: Call, body: RunBody) -> RawAnswer:
        path = workspace.run(body.run) / REPORT
        try:
            content = read_regular(path, _LARGEST_REPORT, follow=False)
        except (OSError, ValueError) as error:
            raise NotHere(
                f"{body.run} has no report that can be shown ({_reason(error)}); a run writes one "
                "when it ends."
            ) from error
        return RawAnswer(content, "text/html; charset=utf-8", REPORT_HEADERS)

    def stop(call: Call, body: RunBody) -> Any:
        folder = workspace.run(body.run)
        stop_run(folder, read_state(folder))
        return {"run": body.run, "told": "stop"}

    def go_on(call: Call, body: RunBody) -> Any:
        folder = workspace.run(body.run)
        workspace.started.start(folder, read_state(folder), workspace.roots)
        return {"run": body.run, "told": "continue"}

    def get(path: str, summary: str, answer: Any, body: Any = None, **more: Any) -> Endpoint:
        return Endpoint(
            path=path, summary=summary, answer=answer, dialect=NATIVE, body=body, method="GET",
            counted=False, **more,
        )  # fmt: skip

    def change(path: str, summary: str, answer: Any) -> Endpoint:
        return Endpoint(
            path=path, summary=summary, answer=answer, dialect=NATIVE, body=RunBody, changes=True
        )

    return [
        get("/v1/runs", "say how far runs are", listed),
        get("/v1/runs/details", "say what a run was set to, and what it noted", details, RunBody),
        get("/v1/runs/curves", "say what a run measured", curves, CurveBody),
        get("/v1/runs/events", "say what happens to runs", events),
        get("/v1/runs/report", "show the report of a run", report, RunBody),
        change("/v1/runs/stop", "ask a run to stop", stop),
        change("/v1/runs/continue", "go on with a run", go_on),
    ]


def run_curves(workspace: Workspace, body: CurveBody) -> dict[str, Any]:
    """What a run measured, as much of it as a chart can show.

    Raises:
        NotHere: If there is no such run or part, or nothing was measured.
    """
    folder = workspace.run(body.run)
    parts = parts_of(folder)
    part = body.part or (parts[0] if parts else WHOLE)
    if part not in parts:
        raise NotHere(f"{body.run} has measured nothing yet; wait for its first steps.")
    curve = workspace.curves.of(folder / part / METRICS)
    with curve.lock:
        try:
            curve.update()
        except (OSError, ValueError) as error:
            raise NotHere(
                f"what {body.run} measured cannot be read ({_reason(error)}); look at the list "
                "again."
            ) from error
        first, last = curve.span()
        begin, end = max(body.begin, first), min(body.end, last)
        wanted = [each for each in body.series.split(",") if each] or list(curve.series)
        series = {}
        for name in wanted:
            steps, values = curve.thinned(name, body.columns, begin, end)
            series[name] = {"steps": steps, "values": values}
        reader = curve.reader
        return {
            "run": body.run,
            "part": part,
            "parts": parts,
            "identity": reader.identity,
            "offset": reader.offset,
            "lines": curve.lines,
            "damaged": reader.damaged,
            "left_out_bytes": reader.left_out,
            "first_step": first,
            "last_step": last,
            "names": list(curve.series),
            "series": series,
            "marks": curve.thinned_marks(body.columns, begin, end),
        }


def _events(workspace: Workspace, call: Call) -> Iterator[Any]:
    def wanted() -> bool:
        return not call.work.over and not call.is_ending()

    yield from workspace.watcher.events(wanted)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)

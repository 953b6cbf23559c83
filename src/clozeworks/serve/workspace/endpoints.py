"""Everything that can be asked about a workspace, beside what can be asked of its models."""

from typing import Any

from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.replies import NATIVE
from clozeworks.serve.workspace.data_endpoints import data_endpoints
from clozeworks.serve.workspace.run_endpoints import run_endpoints
from clozeworks.serve.workspace.workspace import Workspace


def workspace_endpoints(workspace: Workspace) -> list[Endpoint]:
    """What can be asked about a workspace."""

    def listed(call: Call, body: None) -> Any:
        contents = workspace.look()
        return {
            "folders": list(workspace.sources),
            "models": list(contents.models),
            "runs": list(contents.runs),
            "corpora": list(contents.corpora),
            "files": list(contents.files),
            "is_cut": contents.is_cut,
        }

    return [
        Endpoint(
            path="/v1/workspace", summary="say what there is in the folders that were opened",
            answer=listed, dialect=NATIVE, method="GET", counted=False,
        ),
        *run_endpoints(workspace),
        *data_endpoints(workspace),
    ]  # fmt: skip

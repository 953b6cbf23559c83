"""Models as replicas of Ray Serve, asked over HTTP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.errors import SettingError

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
MISSING = "ray is not installed here: pip install 'clozeworks[ray]'"
# Ray keeps what it writes below a short path (sockets), and nothing in anybody's home.
PROGRAM = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
import ray
from ray import serve
import clozeworks as cw
from clozeworks.serve.limits import ServerLimits
from clozeworks.serve.ray import deployment

models, temporary = json.loads(sys.argv[1]), sys.argv[2]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
ray.init(
    num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
    _temp_dir=temporary, _node_ip_address="127.0.0.1",
)
serve.start(http_options={"host": "127.0.0.1", "port": port})
app = deployment(
    models, num_replicas=2, limits=ServerLimits(inputs=50), ray_actor_options={"num_cpus": 0.5}
)
serve.run(app, route_prefix="/all")
address = f"http://127.0.0.1:{port}/all"
words, stories = cw.connect(f"{address}#words"), cw.connect(f"{address}#stories")
with ThreadPoolExecutor(4) as threads:
    vectors = list(threads.map(words.embed, ["the cat sat"] * 40))
found = {
    "vectors": [each.tolist() for each in vectors],
    "passage": cw.connect(f"{address}#pets").search("the dog", by="words")[0].passage,
    "whole": stories.generate("the cat", max_new_tokens=6).text,
    "chunks": [chunk.text for chunk in stories.stream("the cat", max_new_tokens=6)],
}
try:
    words.embed(["the cat"] * 51)
except cw.ClozeworksError as error:
    found["refused"] = str(error)
serve.shutdown()
ray.shutdown()
print(json.dumps(found))
"""


@pytest.mark.slow
def test_replicas_answer_as_in_python(tiny_models, writers, tmp_path):
    pytest.importorskip("ray.serve", reason=MISSING)
    words, stories = cw.load(tiny_models["bert"]), cw.load(writers["gpt2"])
    cw.Index.build(["the cat sat", "the dog lay"], tiny_models["bert"], tmp_path / "pets")
    models = {"words": tiny_models["bert"], "stories": writers["gpt2"], "pets": "pets"}
    temporary = tempfile.mkdtemp(prefix="ray-")
    private = {"HOME": temporary, "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(models, default=str), temporary],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env=os.environ | private,
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["vectors"]) == 40
    for vector in found["vectors"]:
        assert vector == pytest.approx(words.embed("the cat sat").tolist(), abs=1e-6)
    assert found["passage"] == "the dog lay"
    assert found["whole"] == stories.generate("the cat", max_new_tokens=6).text
    assert "".join(found["chunks"]) == found["whole"]
    assert "at most 50 are taken" in found["refused"]


def test_replicas_load_models_themselves(tiny_models):
    pytest.importorskip("ray.serve", reason=MISSING)
    from clozeworks.serve.ray import deployment

    with pytest.raises(SettingError, match=r"models\.words is 'LanguageModel'; replicas load"):
        deployment({"words": cw.load(tiny_models["bert"])})


@pytest.mark.parametrize("guide", ["serving.md", "zh/serving.md"])
def test_what_the_guides_say_is_a_deployment(guide, monkeypatch):
    serve = pytest.importorskip("ray.serve", reason=MISSING)
    text = (GUIDES / guide).read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    [block] = [block for block in blocks if "clozeworks.serve.ray" in block]
    ran = []
    monkeypatch.setattr(serve, "run", ran.append)
    exec(compile(block, guide, "exec"), {})
    assert [type(each).__name__ for each in ran] == ["Application"]

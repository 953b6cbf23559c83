"""`clozeworks env`: versions, and what this machine offers."""

from cyclopts import App

app = App(name="clozeworks env", help_format="plaintext", version_flags=[])

LIBRARIES = (
    "torch",
    "tokenizers",
    "safetensors",
    "numpy",
    "huggingface_hub",
    "cyclopts",
    "rich",
    "pyarrow",
)


@app.default
def env() -> None:
    """Print versions and what this machine offers, for a bug report."""
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from clozeworks import __version__

    print(f"clozeworks       {__version__}")
    print(
        f"python           {platform.python_version()} on {platform.system()} {platform.machine()}"
    )
    for name in LIBRARIES:
        try:
            print(f"{name:<16} {version(name)}")
        except PackageNotFoundError:
            print(f"{name:<16} not installed")
    print(f"cores            {os.cpu_count()}, {torch.get_num_threads()} threads in use")
    print(f"instructions     {torch.backends.cpu.get_cpu_capability()}")
    print(f"memory           {_memory()}")
    for device in _accelerators():
        print(f"accelerator      {device}")
    print(
        f"hub              {'offline' if os.environ.get('HF_HUB_OFFLINE') else 'asked when needed'}"
    )


def _memory() -> str:
    import os

    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.1f} GiB"


def _accelerators() -> list[str]:
    import torch

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("Apple GPU (mps)")
    return devices or ["none"]

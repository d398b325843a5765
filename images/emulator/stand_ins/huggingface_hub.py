"""Stands in for the hub's client: brings the placeholder model."""

import shutil

_MODEL = "/opt/models/emulated"


def snapshot_download(repo_id: str, *, revision: str | None = None, local_dir: str) -> str:
    """Put the placeholder into `local_dir`, whatever is asked for."""
    at = f" at {revision}" if revision else ""
    print(f"huggingface_hub: emulated, a placeholder stands for {repo_id}{at}", flush=True)
    shutil.copytree(_MODEL, local_dir, dirs_exist_ok=True)
    return local_dir

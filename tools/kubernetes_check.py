"""Builds the overlay of deployment/kubernetes, and checks every manifest: a part of `make check`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

FOLDER = Path(__file__).resolve().parents[1] / "deployment/kubernetes"
OVERLAY = FOLDER / "overlays/managed"
#: The oldest version that the manifests are for, and the newest one that the library knows.
VERSIONS = ("1.30", kubernetes_validate.latest_version())

#: What the resources of a cluster have no namespace for.
_OF_THE_CLUSTER = {"Namespace"}
_FIELDS = {
    *("apiVersion", "kind", "namespace", "resources", "configMapGenerator"),
    *("patches", "images", "replicas"),
}
#: Lists that a patch changes by the entries with the same value of this field.
_MERGED_BY = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
}
#: Lists that a patch replaces.
_REPLACED = {"items"}

Manifest = dict[str, Any]


class ManifestError(Exception):
    """A manifest or a kustomization is wrong. The message names it."""


def build(folder: Path) -> list[Manifest]:
    """Return the manifests of a kustomization, as `kubectl kustomize` does.

    Only the fields are known that deployment/kubernetes uses. Another one raises ManifestError. A generated
    ConfigMap has no hash in its name.
    """
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(said) - _FIELDS:
        raise ManifestError(f"{folder}: tools/kubernetes_check.py does not know {sorted(unknown)}.")
    manifests: list[Manifest] = []
    for name in said.get("resources", ()):
        path = folder / name
        manifests += build(path) if path.is_dir() else _read(path)
    for wanted in said.get("configMapGenerator", ()):
        _generate(manifests, folder, **wanted)
    for patch in said.get("patches", ()):
        _apply(patch, manifests, folder)
    _adapt(manifests, said)
    if len({describe(it) for it in manifests}) < len(manifests):
        raise ManifestError(f"{folder}: two resources have the same kind and name.")
    return manifests


def describe(manifest: Manifest) -> str:
    """Return the kind and the name of a manifest."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def pods(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """Return the specification of the pod of each resource that starts some, by its name."""
    return {
        it["metadata"]["name"]: it["spec"]["template"]["spec"]
        for it in manifests
        if "template" in it.get("spec", {})
    }


def _read(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text()))


def _adapt(manifests: list[Manifest], said: Manifest) -> None:
    """Set the namespace, the images and the replicas of a kustomization."""
    for manifest in manifests:
        if "namespace" in said and manifest["kind"] not in _OF_THE_CLUSTER:
            manifest["metadata"]["namespace"] = said["namespace"]
        for image in said.get("images", ()):
            _name_image(manifest, **image)
    for wanted in said.get("replicas", ()):
        (scaled,) = (it for it in manifests if describe(it) == f"Deployment {wanted['name']}")
        scaled["spec"]["replicas"] = wanted["count"]


def _generate(
    manifests: list[Manifest],
    folder: Path,
    *,
    name: str,
    behavior: str = "create",
    envs: Sequence[str] = (),
    literals: Sequence[str] = (),
    files: Sequence[str] = (),
) -> None:
    lines = [line for file in envs for line in (folder / file).read_text().splitlines()] + list(literals)
    data = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    data |= {file: (folder / file).read_text() for file in files}
    if behavior == "merge":
        (found,) = (it for it in manifests if describe(it) == f"ConfigMap {name}")
        found["data"] |= data
    else:
        manifests.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def _apply(patch: dict[str, Any], manifests: list[Manifest], folder: Path) -> None:
    change = yaml.safe_load(patch["patch"] if "patch" in patch else (folder / patch["path"]).read_text())
    changed = [it for it in manifests if _is_target(it, **patch["target"])]
    if not changed:
        raise ManifestError(f"{folder}: no resource is a target of {patch}.")
    for manifest in changed:
        for part in change.keys() - {"apiVersion", "kind", "metadata"}:
            manifest[part] = _merge(manifest.get(part), deepcopy(change[part]))


def _is_target(manifest: Manifest, *, kind: str, name: str = "", labelSelector: str = "=") -> bool:  # noqa: N803
    label, _, value = labelSelector.partition("=")
    labels = manifest["metadata"].get("labels", {})
    named = manifest["metadata"]["name"] == name if name else labels.get(label) == value
    return bool(manifest["kind"] == kind and named)


def _merge(old: Any, new: Any, of: str = "") -> Any:
    """Return what a strategic merge patch makes of `old`, which is the value of the field `of`."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {name: _merge(old.get(name), value, name) for name, value in new.items()}
    if not isinstance(old, list) or of in _REPLACED:
        return new
    if of not in _MERGED_BY:
        raise ManifestError(f"tools/kubernetes_check.py does not know how a patch changes {of}.")
    key = _MERGED_BY[of]
    changes = {entry[key]: entry for entry in new}
    merged = [_merge(entry, changes.pop(entry[key], {})) for entry in old]
    return [*changes.values(), *merged]


def _name_image(manifest: Manifest, *, name: str, newName: str, newTag: str) -> None:  # noqa: N803
    for pod in pods([manifest]).values():
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            if container["image"] == name:
                container["image"] = f"{newName}:{newTag}"


def check(manifests: Iterable[Manifest]) -> list[str]:
    """Return what is wrong with the manifests."""
    wrong = []
    for manifest in manifests:
        try:
            for version in VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)
        except jsonschema.ValidationError as error:
            path = ".".join(map(str, error.path))
            wrong.append(f"{describe(manifest)}: {path}: {error.message}")
    return wrong


def main() -> None:
    """Check the overlay. Exit with what is wrong, and status 1."""
    if wrong := check(build(OVERLAY)):
        sys.exit("\n".join(dict.fromkeys(wrong)))


if __name__ == "__main__":
    main()

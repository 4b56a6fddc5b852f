"""Checks of config/examples/kubernetes.yaml. These checks do not need a cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from qmgr_config.load import load
from qmgr_config.model import Config
from qmgr_config.units import parse_bytes
from tests.test_image import only

FILE = Path(__file__).parent.parent / "config/examples/kubernetes.yaml"
KINDS = {
    "Service": "v1",
    "Certificate": "cert-manager.io/v1",
    "ConfigMap": "v1",
    "StatefulSet": "apps/v1",
}
UNITS = {"Mi": "MiB", "Gi": "GiB"}


def objects() -> dict[str, Any]:
    """Returns the objects of the file by kind."""
    found = list(yaml.safe_load_all(FILE.read_text()))
    assert all(set(one) >= {"apiVersion", "kind", "metadata"} for one in found)
    return {one["kind"]: one for one in found}


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = objects()["StatefulSet"]["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    return dict(found)


def config(directory: Path) -> Config:
    """Returns the configuration of the daemon in the ConfigMap."""
    file = directory / "qmgrd.toml"
    file.write_text(objects()["ConfigMap"]["data"]["qmgrd.toml"])
    return load(file)


def test_each_object_has_its_version_and_the_same_name() -> None:
    assert {kind: one["apiVersion"] for kind, one in objects().items()} == KINDS
    assert {one["metadata"]["name"] for one in objects().values()} == {"nyc"}


def test_service_reaches_only_the_port_with_tls(tmp_path: Path) -> None:
    service, found = objects()["Service"]["spec"], config(tmp_path)
    (port,), (container_port,) = service["ports"], container()["ports"]
    assert port["targetPort"] == container_port["name"]
    assert found.listen.tls == (f"0.0.0.0:{container_port['containerPort']}",)
    assert str(container_port["containerPort"]) == only("EXPOSE")
    state = objects()["StatefulSet"]["spec"]
    labels = state["template"]["metadata"]["labels"]
    assert service["selector"] == state["selector"]["matchLabels"] == labels
    assert state["serviceName"] == objects()["Service"]["metadata"]["name"]
    assert state["replicas"] == 1


def test_mounted_volumes_exist_and_contain_the_files_of_the_configuration(tmp_path: Path) -> None:
    found = config(tmp_path)
    volumes = {one["name"]: one for one in pod()["volumes"]}
    claims = {
        one["metadata"]["name"]: one
        for one in objects()["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    mounts = {one["mountPath"]: one["name"] for one in container()["volumeMounts"]}
    assert set(mounts.values()) == volumes.keys() | claims.keys()
    assert claims.keys() == {mounts[str(found.queue_manager.data_dir)]}
    tls = mounts[str(Path(found.tls.key).parent)]
    certificate = objects()["Certificate"]["spec"]
    assert volumes[tls]["secret"]["secretName"] == certificate["secretName"]
    assert {Path(path).parent for path in (found.tls.certificate, found.tls.key, found.tls.ca)} == {
        Path("/etc/qmgrd/tls")
    }
    (login,) = found.link.logins
    assert login.password_file is not None
    assert str(login.password_file.parent) in mounts
    claimed = claims["store"]["spec"]["resources"]["requests"]["storage"]
    size, unit = re.fullmatch(r"(\d+)(Mi|Gi)", claimed).groups()  # type: ignore[union-attr]
    assert found.store.map_bytes < parse_bytes(f"{size} {UNITS[unit]}")
    assert only("ENTRYPOINT").endswith('"--config", "/etc/qmgrd/qmgrd.toml"]')
    assert "/etc/qmgrd/qmgrd.toml" in mounts


def test_secrets_are_readable_for_the_daemon_and_nobody_else() -> None:
    secrets = [one["secret"] for one in pod()["volumes"] if "secret" in one]
    assert [one["defaultMode"] for one in secrets] == [0o440] * 2
    security = pod()["securityContext"]
    user, group = map(int, only("USER").split(":"))
    assert (security["runAsUser"], security["runAsGroup"]) == (user, group)
    assert security["fsGroup"] == group
    assert security["runAsNonRoot"] is True


def test_container_can_change_nothing_but_its_store() -> None:
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod()["automountServiceAccountToken"] is False


def test_probe_is_the_health_check_of_the_image() -> None:
    command = container()["readinessProbe"]["exec"]["command"]
    quoted = ", ".join(f'"{word}"' for word in command)
    assert only("HEALTHCHECK").endswith(f"CMD [{quoted}]")


@pytest.mark.parametrize("word", ["password:", "stringData", "BEGIN"])
def test_file_contains_no_secret(word: str) -> None:
    assert word not in FILE.read_text()

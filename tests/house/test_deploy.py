"""The files of deploy/: rules that can be checked where neither Docker nor Kubernetes runs."""

import ast
import re
from pathlib import Path

import pytest
import yaml

from nightfit import __version__

DEPLOY = Path(__file__).parents[2] / "deploy"
IMAGE = f"nightfit:{__version__}"


def pods():
    """The specification of every pod of the Kubernetes manifests, by file and container."""
    night = yaml.safe_load((DEPLOY / "kubernetes" / "nights.yaml").read_text())
    dask = yaml.safe_load((DEPLOY / "kubernetes" / "dask.yaml").read_text())
    return {
        "night": night["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        "worker": dask["spec"]["worker"]["spec"],
        "scheduler": dask["spec"]["scheduler"]["spec"],
    }


def test_the_deployment_names_a_flow_and_what_it_is_given():
    """Nights of it run in the sweep: test_two_scheduled_nights_of_a_deployment_are_one_run_and_one_charge."""
    (nightly,) = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())["deployments"]
    path, _, name = nightly["entrypoint"].partition(":")
    (flow,) = (
        node
        for node in ast.parse((DEPLOY.parent / path).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == name and any("flow" in ast.unparse(one) for one in node.decorator_list)
    )
    assert nightly["parameters"].keys() <= {argument.arg for argument in (*flow.args.args, *flow.args.kwonlyargs)}
    (schedule,) = nightly["schedules"]
    assert schedule["active"] is True


def test_the_image_is_pinned_slim_and_runs_as_no_root():
    text = (DEPLOY / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases), bases
    assert "--constraint constraints.txt" in text
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    assert users == ["10001:10001"]
    assert text.index("USER") > text.rindex("RUN"), "nothing is installed after root is left"
    assert not re.search(r"^(ADD|.*curl|.*sudo|.*--password)", text, re.MULTILINE)
    needed = set(re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE))
    ignored = (DEPLOY.parent / ".dockerignore").read_text()
    assert all(f"!{name}" in ignored and (DEPLOY.parent / name).exists() for words in needed for name in words.split())


def test_compose_pins_its_images_keeps_passwords_in_secrets_and_listens_on_loopback_only():
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in content["services"].items():
        assert re.fullmatch(r"[\w/.-]+:\d[\w.-]*", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        open_secrets = [key for key in service.get("environment", ()) if re.search("password|secret", key, re.IGNORECASE)]
        assert all(key.endswith("_FILE") for key in open_secrets), name
        assert set(service.get("secrets", ())) <= set(content["secrets"]), name
        named = [volume.split(":")[0] for volume in service.get("volumes", ()) if not volume.startswith(".")]
        assert set(named) <= set(content["volumes"]), name
        if service["image"] == IMAGE:
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name
    assert "--tls-ca-file" in content["services"]["scheduler"]["command"]
    assert "fsync=on" in content["services"]["ledger"]["command"]


@pytest.mark.parametrize("name", ["night", "worker", "scheduler"])
def test_a_pod_runs_as_no_root_and_mounts_what_it_names(name):
    pod = pods()[name]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}


DASK_CLUSTER = {
    "": ({"apiVersion", "kind", "metadata", "spec"}, {"status"}),
    "spec": ({"scheduler", "worker"}, {"idleTimeout"}),
    "spec.worker": ({"spec"}, {"replicas"}),
    "spec.scheduler": ({"spec", "service"}, set()),
}
"""Of the Dask operator's DaskCluster, kubernetes.dask.org/v1 (its customresources/templates.yaml): needed and other fields of each part."""

POD = {
    "automountServiceAccountToken",
    "containers",
    "restartPolicy",
    "securityContext",
    "volumes",
    "nodeSelector",
    "tolerations",
    "affinity",
}
POD_SECURITY = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile", "supplementalGroups"}
CONTAINER = {"name", "image", "command", "args", "env", "envFrom", "ports", "resources", "securityContext", "volumeMounts", "livenessProbe"}
VOLUMES = {
    "secret": {"secretName", "defaultMode"},
    "emptyDir": {"sizeLimit", "medium"},
    "configMap": {"name"},
    "persistentVolumeClaim": {"claimName"},
}
SERVICE_PORT = {"name", "protocol", "port", "targetPort"}
"""Of Kubernetes' core/v1: the fields that a manifest here may have. An unknown one is pruned by the server without a word."""


def test_the_dask_cluster_has_the_fields_that_the_operator_documents():
    """The operator itself is not run here."""
    cluster = yaml.safe_load((DEPLOY / "kubernetes" / "dask.yaml").read_text())
    assert (cluster["apiVersion"], cluster["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    for path, (needed, other) in DASK_CLUSTER.items():
        part = cluster
        for name in filter(None, path.split(".")):
            part = part[name]
        assert needed <= set(part) <= needed | other, path
    service = cluster["spec"]["scheduler"]["service"]
    assert set(service) <= {"type", "selector", "ports"}
    assert service["selector"] == {"dask.org/cluster-name": cluster["metadata"]["name"], "dask.org/component": "scheduler"}
    (port,), (exposed,) = service["ports"], cluster["spec"]["scheduler"]["spec"]["containers"][0]["ports"]
    assert set(port) <= SERVICE_PORT
    assert (port["targetPort"], port["port"]) == (exposed["name"], exposed["containerPort"])
    assert isinstance(cluster["spec"]["worker"]["replicas"], int)


@pytest.mark.parametrize("name", ["night", "worker", "scheduler"])
def test_a_pod_has_fields_of_kubernetes_alone(name):
    pod = pods()[name]
    (container,) = pod["containers"]
    assert set(pod) <= POD
    assert set(pod["securityContext"]) <= POD_SECURITY
    assert set(container) <= CONTAINER
    assert all(isinstance(word, str) for word in (*container.get("command", ()), *container["args"]))
    assert set(container["resources"]) <= {"requests", "limits"}
    assert all(isinstance(amount, str) for part in container["resources"].values() for amount in part.values())
    for volume in pod["volumes"]:
        (kind,) = set(volume) - {"name"}
        assert set(volume[kind]) <= VOLUMES[kind]
    assert all({"name", "mountPath"} <= set(mount) <= {"name", "mountPath", "readOnly"} for mount in container["volumeMounts"])


def test_no_two_nights_run_at_once_and_a_failed_night_is_told():
    night = yaml.safe_load((DEPLOY / "kubernetes" / "nights.yaml").read_text())["spec"]
    assert night["concurrencyPolicy"] == "Forbid"
    unit = (DEPLOY / "nightfit.service").read_text()
    assert "OnFailure=nightfit-failed@%n.service" in unit
    told = (DEPLOY / "nightfit-failed@.service").read_text()
    assert "nightfit doctor" in told
    for text in (unit, told):
        sections = re.findall(r"^\[(\w+)\]$", text, re.MULTILINE)
        assert set(sections) <= {"Unit", "Service", "Install"}
        assert all("=" in line for line in text.splitlines() if line and line[0] not in "#[")
        assert "NoNewPrivileges=yes" in text

#!/usr/bin/env python3
"""packaging/kubernetes says what the server has: settings are options of serve, probes ask routes, ports and paths are the image's,
the autoscaler's metric is one of /metrics, a pod has the time that draining takes, and what a kustomization names is there. So is
what one object names of another: pods by their labels, services, ports, volumes, folders. haproxy's rules are those of
examples/replicas in their order, it listens where its pod says, and has a place for each server that may come.

Whether Kubernetes takes the manifests is asked by tests/operations/run.py, with kubectl and kubernetes-validate."""
import os
import re
import sys

import source

FOLDER, EXAMPLE = "packaging/kubernetes", "examples/replicas/haproxy.cfg"
PROXY = f"{FOLDER}/components/proxy/haproxy.cfg"
OPTION = re.compile(r"^\| `--([\w-]+)`(?:[^|\\]|\\.)*\|(?:[^|\\]|\\.)*\| ([\w, ]+) \|", re.M)
ROUTE = re.compile(r"^\| `GET (\S+)`", re.M)
METRIC = re.compile(r"^\| `(\w+)` \| (?:gauge|counter|histogram) \|", re.M)


# ---- YAML, as far as these files need it ----

def scalar(text):
    if text.startswith("[") and text.endswith("]"):
        return [scalar(t.strip()) for t in text[1:-1].split(",")]
    return text[1:-1] if text[:1] == text[-1:] and text[:1] in ("'", '"') else text


def block(lines, depth):
    """What lies at this depth or deeper, taken off the lines, which are (depth, text)."""
    first = lines[0][1]
    if first.startswith("- "):
        out = []
        while lines and lines[0][0] == depth and lines[0][1].startswith("- "):
            item = lines[0][1][2:]
            lines[0] = (depth + 2, item)
            out.append(block(lines, depth + 2) if re.match(r"[\w./-]+:( |$)", item) else scalar(lines.pop(0)[1]))
        return out
    out = {}
    while lines and lines[0][0] == depth and not lines[0][1].startswith("- "):
        m = re.fullmatch(r"([\w./-]+):(?: +(.*))?", lines[0][1])
        if not m:
            raise ValueError(f"not read: {lines[0][1]}")
        lines.pop(0)
        deeper = lines and (lines[0][0] > depth or (lines[0][0] == depth and lines[0][1].startswith("- ")))
        out[m.group(1)] = scalar(m.group(2)) if m.group(2) not in (None, "|-") else block(lines, lines[0][0]) if deeper else ""
    return out


def documents(text):
    """Each document of a file; a patch that stands in it as text is read as well."""
    for part in re.split(r"^---$", text, flags=re.M):
        lines = [(len(x) - len(x.lstrip()), x.strip()) for x in part.split("\n") if x.strip() and not x.strip().startswith("#")]
        if lines:
            yield block(lines, 0)
            if lines:
                raise ValueError(f"not read: {lines[0][1]}")


def walk(value):
    """All maps in a value."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)


# ---- the rules ----

def known(options, api, operations, dockerfile):
    """What the server and its image have."""
    user, = re.findall(r"^USER (\d+)", dockerfile, re.M)
    place, = re.findall(r"^RUN install -d .* (\S+)$", dockerfile, re.M)
    port, = re.findall(r"^EXPOSE (\d+)$", dockerfile, re.M)
    return {"settings": {"LONGFLASH_" + name.upper().replace("-", "_") for name, of in OPTION.findall(options) if "serve" in of.split(", ")},
            "routes": set(ROUTE.findall(api)), "metrics": set(METRIC.findall(operations)), "user": user, "place": place, "port": port}


def of_server(pod, has):
    """Problems of the server's container, as far as it is spoken of: a patch says a part."""
    env = {e["name"]: e.get("value") for e in pod.get("env", [])}
    for name in env:
        if name not in has["settings"]:
            yield f"{name} is no setting of serve"
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        path = pod.get(kind, {}).get("httpGet", {}).get("path")
        if path is not None and path not in has["routes"]:
            yield f"{kind} asks {path}, which is no route"
    for port in pod.get("ports", []):
        if port["containerPort"] != has["port"]:
            yield f"port {port['containerPort']}, and the image has {has['port']}"
    if "LONGFLASH_CACHE_DIR" in env:
        if env["LONGFLASH_CACHE_DIR"] != has["place"]:
            yield f"LONGFLASH_CACHE_DIR is not {has['place']}, which is the image's"
        if has["place"] not in [m["mountPath"] for m in pod.get("volumeMounts", [])]:
            yield f"no volume is mounted at {has['place']}"


def of_stateful_set(spec, has):
    """Problems of the whole StatefulSet, not of a patch."""
    pod = spec["template"]["spec"]
    server = pod["containers"][0]
    if pod.get("enableServiceLinks") != "false":
        yield "enableServiceLinks is not false: variables of other services would be refused as settings"
    if pod["securityContext"]["runAsUser"] != has["user"] or pod["securityContext"]["fsGroup"] != has["user"]:
        yield f"runAsUser and fsGroup are not {has['user']}, the image's user"
    drain = next(int(e["value"]) for e in server["env"] if e["name"] == "LONGFLASH_DRAIN_TIMEOUT")
    before = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    if int(pod["terminationGracePeriodSeconds"]) < drain + before + 10:
        yield f"terminationGracePeriodSeconds is less than preStop and --drain-timeout, {before} and {drain} s, and 10 s"


def check_object(obj, has, n_servers):
    kind, spec = obj.get("kind"), obj.get("spec", {})
    for pod in walk(obj):
        if pod.get("name") == "longflash" and kind == "StatefulSet":
            yield from of_server(pod, has)
    if kind == "StatefulSet" and "selector" in spec:
        yield from of_stateful_set(spec, has)
    if kind == "HorizontalPodAutoscaler":
        if int(spec["maxReplicas"]) != n_servers:
            yield f"maxReplicas is {spec['maxReplicas']}, and haproxy knows {n_servers} servers"
        for metric in [m["metric"]["name"] for m in walk(spec) if "metric" in m]:
            if metric.removeprefix("longflash_") not in has["metrics"]:
                yield f"nothing has the name {metric}"
    if kind == "InferencePool" and [p["number"] for p in spec["targetPorts"]] != [has["port"]]:
        yield f"targetPorts are not {has['port']}"
    for patch in obj.get("patches", []):
        for inner in [patch["patch"]] if isinstance(patch["patch"], dict) else []:
            yield from check_object(inner, has, n_servers)


# ---- what names another ----

NAME = "app.kubernetes.io/name"
WORKLOADS = ("StatefulSet", "Deployment")


def world(objects):
    """What the objects of all files have that others name; of workloads, not of patches of them."""
    whole = [o for o in objects if o.get("kind") in WORKLOADS and "selector" in o.get("spec", {})]
    pods = [o["spec"]["template"] for o in whole]
    maps = [m for o in objects for m in walk(o)]
    return {"workloads": {(o["kind"], o["metadata"]["name"]) for o in whole}, "names": {p["metadata"]["labels"][NAME] for p in pods},
            "ports": {p["name"] for pod in pods for c in pod["spec"]["containers"] for p in c.get("ports", [])},
            "headless": {o["metadata"]["name"] for o in objects if o.get("kind") == "Service" and o["spec"].get("clusterIP") == "None"},
            "volumes": {v["name"] for m in maps for v in m.get("volumes", [])} |
                       {o["metadata"]["name"] for m in maps for o in m.get("volumeClaimTemplates", [])},
            "maps": {g["name"] for o in objects for g in o.get("configMapGenerator", [])}}


def ports_named(m):
    """Ports that a map names by name."""
    named = [m.get("targetPort")] + [m[k].get("port") for k in ("httpGet", "tcpSocket") if k in m]
    named += [p.get("port") for p in m.get("ports", []) if list(p) == ["port"]]
    return [n for n in named if n is not None and not n.isdigit()]


def check_map(m, there):
    """Problems of one map, wherever it stands."""
    if NAME in m and m[NAME] not in there["names"]:
        yield f"no pod has the name {m[NAME]}"
    yield from (f"no container has a port {n}" for n in ports_named(m) if n not in there["ports"])
    yield from (f"there is no volume {v['name']}" for v in m.get("volumeMounts", []) if v["name"] not in there["volumes"])
    if "configMap" in m and m["configMap"]["name"] not in there["maps"]:
        yield f"nothing makes the ConfigMap {m['configMap']['name']}"
    mounts = [v["mountPath"] for v in m.get("volumeMounts", [])]
    for e in m.get("env", []):
        if e.get("value", "").startswith("/") and not any((e["value"] + "/").startswith(place + "/") for place in mounts):
            yield f"no volume is mounted where {e['name']} is"
    target = m.get("scaleTargetRef")
    if target and (target["kind"], target["name"]) not in there["workloads"]:
        yield f"there is no {target['kind']} {target['name']}"
    if "minReplicas" in m and int(m["minReplicas"]) > int(m["maxReplicas"]):
        yield "minReplicas is more than maxReplicas"


def check_references(obj, there):
    """What an object names is there."""
    for m in walk(obj):
        yield from check_map(m, there)
    spec, kind = obj.get("spec", {}), obj.get("kind")
    if kind in WORKLOADS and "selector" in spec and not spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items():
        yield "the selector is not of its own pods"
    if "serviceName" in spec and spec["serviceName"] not in there["headless"]:
        yield f"{spec['serviceName']} is no service without an address"
    if kind == "Service" and obj["metadata"]["labels"][NAME] != spec["selector"][NAME]:
        yield f"it is of {obj['metadata']['labels'][NAME]}, and selects {spec['selector'][NAME]}"


def check_proxy_pod(obj, config, there):
    """haproxy's container, against its configuration."""
    pod = obj["spec"]["template"]["spec"]["containers"][0]
    bind, = re.findall(r"^ *bind \S*:(\d+)$", config, re.M)
    if [p["containerPort"] for p in pod["ports"]] != [bind]:
        yield f"haproxy listens on {bind}, the container does not"
    if f"monitor-uri {pod['readinessProbe']['httpGet']['path']}" not in config:
        yield "its readinessProbe is not haproxy's monitor-uri"
    domain = next(e["value"] for e in pod["env"] if e["name"] == "LONGFLASH_DOMAIN").split(".")[0]
    if domain not in there["headless"]:
        yield f"LONGFLASH_DOMAIN is that of {domain}, which is no service without an address"


def check_named(path, obj, beside):
    """A kustomization names all files beside it, and nothing else."""
    named = {r for r in obj.get("resources", []) if not r.startswith("..")}
    named |= {f for g in obj.get("configMapGenerator", []) for f in g["files"]}
    yield from (f"{path}: {name} is not there" for name in sorted(named - beside))
    yield from (f"{path}: {name} is not named" for name in sorted(beside - named - {"kustomization.yaml"}))


def rules(config):
    """haproxy's lines that are the same wherever the servers are."""
    lines = [x.strip() for x in config.split("\n") if x.strip() and not x.strip().startswith("#")]
    lines = [x for x in lines if not x.startswith(("server ", "bind ", "default-server "))]
    begins = lines.index("resolvers cluster") if "resolvers cluster" in lines else len(lines)
    return lines[:begins] + lines[lines.index("defaults"):] if begins < len(lines) else lines


def check_proxies(example, proxy, has):
    ours, theirs = rules(example), rules(proxy)
    yield from (f"{PROXY}: not in {EXAMPLE}: {x}" for x in theirs if x not in ours)
    yield from (f"{PROXY}: missing, {EXAMPLE} has it: {x}" for x in ours if x not in theirs)
    if sorted(ours) == sorted(theirs) and ours != theirs:
        yield f"{PROXY}: its rules are those of {EXAMPLE} in another order"
    checks, = re.findall(r"^ *(default-server check .*)$", example, re.M)
    if checks not in proxy:
        yield f"{PROXY}: missing, {EXAMPLE} has it: {checks}"
    servers = re.findall(r"^ *server longflash-(\d+) \S+:808(\d) id (\d+)$", example, re.M)
    if servers != [(str(i), str(i + 1), str(i + 1)) for i in range(len(servers))] or not servers:
        yield f"{EXAMPLE}: servers are not longflash-0, longflash-1 ... with ports and ids one after the other"
    for config, path in ((example, EXAMPLE), (proxy, PROXY)):
        uri = re.search(r"http-check send meth GET uri (\S+)", config)
        if not uri or uri.group(1) not in has["routes"]:
            yield f"{path}: its check asks no route"
    for i, (name, port, idx) in enumerate(re.findall(r"^ *server (\S+) \S+:(\d+)\"? id (\d+)", proxy, re.M)):
        if (name, port, idx) != (f"longflash-{i}", has["port"], str(i + 1)):
            yield f"{PROXY}: {name} is not longflash-{i} at port {has['port']} with id {i + 1}"


def check(has, files, example):
    """files: path below FOLDER to text."""
    proxy = files["components/proxy/haproxy.cfg"]
    problems = list(check_proxies(example, proxy, has))
    objects = {path: list(documents(text)) for path, text in files.items() if path.endswith(".yaml")}
    there = world([o for of_file in objects.values() for o in of_file])
    for path, of_file in objects.items():
        text = files[path]
        for obj in of_file:
            problems += [f"{FOLDER}/{path}: {p}" for p in check_references(obj, there)]
            if obj.get("kind") == "Deployment":
                problems += [f"{FOLDER}/{path}: {p}" for p in check_proxy_pod(obj, proxy, there)]
            problems += [f"{FOLDER}/{path}: {p}" for p in check_object(obj, has, len(re.findall(r"^ *server ", proxy, re.M)))]
            if obj.get("kind") in ("Kustomization", "Component"):
                where = os.path.dirname(path)
                problems += check_named(f"{FOLDER}/{path}", obj, {os.path.basename(p) for p in files if os.path.dirname(p) == where})
        problems += [f"{FOLDER}/{path}: nothing has the name longflash:{name}"
                     for name in re.findall(r"longflash:(\w+)\{", text) if name not in has["metrics"]]
    return problems


def texts():
    files = {os.path.relpath(p, FOLDER): source.read(p) for p in source.files([FOLDER], (".yaml", ".cfg"))}
    has = known(source.read("docs/options.md"), source.read("docs/api.md"), source.read("docs/operations.md"), source.read("Dockerfile"))
    return has, files, source.read(EXAMPLE)


def self_test():
    """The tree itself, with one thing wrong at a time."""
    has, files, example = texts()
    source.expect("right", check(has, files, example), [])

    def found(path, old, new, wanted):
        assert files[path].count(old) >= 1, (path, old)
        source.expect(old, check(has, {**files, path: files[path].replace(old, new, 1)}, example), wanted)

    server, proxy = "base/statefulset.yaml", "components/proxy/haproxy.cfg"
    found(server, "LONGFLASH_CACHE_DISK", "LONGFLASH_DISK", ["LONGFLASH_DISK is no setting"])
    found(server, "/livez", "/alive", ["startupProbe asks /alive"])
    found(server, "8080", "8000", ["port 8000"])
    found(server, "value: /var/cache/longflash", "value: /cache", ["no volume is mounted where", "LONGFLASH_CACHE_DIR is not"])
    found(server, "mountPath: /var/cache", "mountPath: /cache", ["no volume is mounted where", "no volume is mounted at"])
    found(server, "runAsUser: 65532", "runAsUser: 1000", ["runAsUser and fsGroup"])
    found(server, "enableServiceLinks: false", "enableServiceLinks: true", ["enableServiceLinks is not false"])
    found(server, '"120"', '"140"', ["terminationGracePeriodSeconds"])
    found("components/gpu/kustomization.yaml", "LONGFLASH_DEVICE", "LONGFLASH_GPU", ["LONGFLASH_GPU is no setting"])
    found("components/autoscaling/autoscaler.yaml", "maxReplicas: 8", "maxReplicas: 9", ["haproxy knows 8"])
    found("components/autoscaling/autoscaler.yaml", "requests_waiting", "requests_queued", ["longflash_num_requests_queued"])
    found("components/autoscaling/kustomization.yaml", "requests_waiting", "requests_queued", ["longflash:num_requests_queued"])
    found("components/autoscaling/kustomization.yaml", "autoscaler.yaml", "scaler.yaml", ["scaler.yaml is not there", "autoscaler.yaml is not named"])
    found("components/inference-gateway/pool.yaml", "number: 8080", "number: 80", ["targetPorts"])
    found(proxy, "retries 1", "retries 3", ["not in examples", "missing"])
    found(proxy, "GET uri /readyz", "GET uri /ready", ["not in examples", "missing", "asks no route"])
    found(proxy, "longflash-3 ", "longflash-9 ", ["longflash-9 is not longflash-3"])
    test_references(found)
    swapped = example.replace("longflash-1 127.0.0.1:8082", "longflash-1 127.0.0.1:8081")
    source.expect("ports", check(has, files, swapped), ["servers are not longflash-0"])


def test_references(found):
    server, proxy, pod = "base/statefulset.yaml", "components/proxy/haproxy.cfg", "components/proxy/deployment.yaml"
    found(server, "serviceName: longflash-replicas", "serviceName: longflash", ["longflash is no service"])
    found(server, "kubernetes.io/name: longflash\n  template", "kubernetes.io/name: flash\n  template", ["has the name flash", "the selector"])
    found(server, "port: http", "port: web", ["has a port web"])
    found(server, "name: documents\n              mount", "name: texts\n              mount", ["there is no volume texts"])
    found("base/services.yaml", "targetPort: http", "targetPort: web", ["has a port web"])
    found("base/disruption.yaml", "kubernetes.io/name: longflash", "kubernetes.io/name: flash", ["has the name flash"])
    found("components/keys/kustomization.yaml", "mountPath: /etc/longflash", "mountPath: /etc/long", ["where LONGFLASH_API_KEYS_FILE is"])
    found("components/autoscaling/autoscaler.yaml", "kind: StatefulSet", "kind: Deployment", ["no Deployment longflash"])
    found("components/autoscaling/autoscaler.yaml", "minReplicas: 3", "minReplicas: 9", ["minReplicas is more"])
    found("components/proxy/network.yaml", "name: longflash-proxy\n  ports", "name: longflash\n  ports", ["selects longflash"])
    found(pod, "name: longflash-proxy\n        - name: run", "name: proxy\n        - name: run", ["ConfigMap proxy"])
    found(pod, "path: /readyz", "path: /livez", ["haproxy's monitor-uri"])
    found(pod, "containerPort: 8080", "containerPort: 80", ["haproxy listens on 8080"])
    found(pod, "value: longflash-replicas", "value: longflash", ["LONGFLASH_DOMAIN is that of longflash"])
    found(proxy, "default-server check", "default-server", ["missing"])
    last, first = (f"    http-request set-var(txn.document) {x}\n" for x in
                   ("path,field(4,/),url_dec if { path_beg /v1/documents/ }", "req.hdr(x-document) if { req.hdr(x-document) -m found }"))
    found(proxy, first + last, last + first, ["in another order"])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    source.finish(check(*texts()))


if __name__ == "__main__":
    main()

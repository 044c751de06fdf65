#!/usr/bin/env python3
"""Metrics and labels in Prometheus' rules and Grafana's dashboard (configs/monitoring) are those that the program lists, in the
table of docs/operations.md that it makes, or what a rule records: a name that nothing has is no error in PromQL but an empty
panel and an alert that never comes."""
import json
import re
import sys

import source

RULES, DASHBOARD, LIST = "configs/monitoring/rules.yml", "configs/monitoring/dashboard.json", "docs/operations.md"
PREFIX = "longflash:"
ROW = re.compile(r"^\| `(\w+)` \| (gauge|counter|histogram) \| ([^|]*)\|", re.M)
OF_PROMETHEUS = {"job", "instance", "le"}  # labels that every scrape has, and every bucket
OPERATORS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}

LABELS_OF = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
MATCHERS = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*")


def listed(text):
    """The samples that /metrics can have, and their labels beside those of Prometheus."""
    names, labels = {"up"}, set(OF_PROMETHEUS) | {"model_name"}
    for name, kind, of in ROW.findall(text):
        name = name if name.startswith(("process_", "longflash_")) else PREFIX + name
        names |= {name + s for s in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
        labels |= set(re.findall(r"`(\w+)`", of))
    return names, labels


def parts(expr):
    """The metrics and the labels that an expression names. Functions are what stands before a parenthesis."""
    expr = re.sub(r'"(?:\\.|[^"\\])*"', '""', expr)
    labels = {name for inside in LABELS_OF.findall(expr) for name in NAME.findall(inside)}
    labels |= {name for inside in MATCHERS.findall(expr) for name in NAME.findall(inside)}
    expr = re.sub(r"\[[^\]]*\]", "", MATCHERS.sub(" ", LABELS_OF.sub(" ", expr)))
    names = {m.group(0) for m in NAME.finditer(expr) if not expr[m.end():].lstrip().startswith("(")}
    return names - OPERATORS, labels


def rules(text):
    """The expressions of the rules, each on a line of its own, and the names that they record."""
    exprs = [(f"{RULES}:{text.count(chr(10), 0, m.start()) + 1}", m.group(1)) for m in re.finditer(r"^ *expr: *(.*)$", text, re.M)]
    return exprs, set(re.findall(r"^ *- record: *(\S+)$", text, re.M)), len(re.findall(r"^ *- (?:record|alert):", text, re.M))


def queries(dashboard):
    """The expressions of the panels, and those of the variables that are asked for by a query."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield f"{DASHBOARD}: {panel['title']}", target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), *(\w+)\)", variable["query"]["query"]).groups()
            yield f"{DASHBOARD}: ${variable['name']}", f"sum by ({label}) ({metric})"


def check(list_text, rules_text, dashboard):
    names, labels = listed(list_text)
    exprs, recorded, n_rules = rules(rules_text)
    problems = [] if len(exprs) == n_rules else [f"{RULES}: {len(exprs)} expressions for {n_rules} rules"]
    for where, expr in exprs + list(queries(dashboard)):
        metrics, used = parts(expr)
        problems += [f"{where}: no metric in the expression, or it is not on one line"] if not metrics else []
        problems += [f"{where}: nothing has the name {name}" for name in sorted(metrics - names - recorded)]
        problems += [f"{where}: nothing has the label {name}" for name in sorted(used - labels)]
    return problems


def self_test():
    table = "| `a_total` | counter | `way`: save, load | x |\n| `t_seconds` | histogram |  | x |\n| `process_n` | gauge |  | x |\n"
    recorded = "  - record: i:a:rate\n    expr: sum by (instance, way) (rate(longflash:a_total{way=~\"s.*(x)\"}[5m]))\n"

    def found(expr, rules_text=recorded, variable="label_values(process_n, instance)"):
        return check(table, rules_text, {"panels": [{"title": "row"}, {"title": "P", "targets": [{"expr": expr}]}], "templating": {
            "list": [{"name": "ds", "type": "datasource", "query": "x"}, {"name": "v", "type": "query", "query": {"query": variable}}]}})

    source.expect("right", found('1.5e3 * i:a:rate / on (instance) up{job="wrong"} and process_n offset 5m > bool 0'), [])
    source.expect("right", found('histogram_quantile(0.9, sum by (le) (rate(longflash:t_seconds_bucket{instance=~"$v"}[$__r])))'), [])
    source.expect("name", found("rate(longflash:b_total[5m])"), ["P: nothing has the name longflash:b_total"])
    source.expect("prefix", found("a_total + longflash:process_n"), ["name a_total", "name longflash:process_n"])
    source.expect("histogram", found("longflash:t_seconds + longflash:t_seconds_sum"), ["name longflash:t_seconds"])
    source.expect("suffix", found("longflash:a_total_count"), ["name longflash:a_total_count"])
    source.expect("by", found("sum by (instance, waz) (longflash:a_total)"), ["label waz"])
    source.expect("matcher", found('longflash:a_total{waz!="save"}'), ["label waz"])
    source.expect("none", found("vector(1)"), ["P: no metric"])
    source.expect("variable", found("up", variable="label_values(process_m, instanze)"), ["$v: nothing has the name", "$v: nothing has the label"])
    source.expect("rule", found("up", recorded.replace("a_total", "b_total")), ["rules.yml:2: nothing has the name"])
    source.expect("recorded", found("i:a:rate", recorded.replace("i:a:rate", "i:b:rate")), ["name i:a:rate"])
    source.expect("lines", found("up", "  - alert: A\n    expr: >-\n      up == 0\n"), ["rules.yml:2: no metric"])
    source.expect("missing", found("up", "  - alert: A\n    for: 5m\n"), ["0 expressions for 1 rules"])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    source.finish(check(source.read(LIST), source.read(RULES), json.loads(source.read(DASHBOARD))))


if __name__ == "__main__":
    main()

"""Whether a value meets a JSON schema: the keywords that the tests of structured output use, and no others. Standard
library only."""
import json
import re

TYPES = {"null": type(None), "boolean": bool, "string": str, "array": list, "object": dict}
KNOWN = {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
         "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "anyOf",
         "allOf", "$ref", "$defs", "minProperties", "maxProperties", "title", "description", "format", "default", "nullable"}
FORMATS = {"date": r"\d{4}-\d\d-\d\d", "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "ipv4": r"\d+\.\d+\.\d+\.\d+",
           "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*"}
INTEGERS = {"int32": 2**31, "int64": 2**63}


def is_of(value, kind):
    if kind in ("integer", "number"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (kind == "number" or value == int(value))
    return isinstance(value, TYPES[kind])


def equal(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def meets(value, schema, root=None):
    """Raises where a keyword is none of ours: a check that overlooks one checks nothing."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    unknown = set(schema) - KNOWN
    if unknown:
        raise AssertionError(f"json_check does not know {unknown}")
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#").split("/")[1:]:
            target = target[part]
        if not meets(value, target, root):
            return False
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    kinds = kinds + ["null"] if kinds and schema.get("nullable") else kinds
    return ((not kinds or any(is_of(value, k) for k in kinds))
            and ("enum" not in schema or any(equal(value, v) for v in schema["enum"]))
            and ("const" not in schema or equal(value, schema["const"]))
            and ("anyOf" not in schema or any(meets(value, s, root) for s in schema["anyOf"]))
            and all(meets(value, s, root) for s in schema.get("allOf", []))
            and meets_of_kind(value, schema, root))


def meets_of_kind(value, s, root):
    if isinstance(value, str):
        return (s.get("minLength", 0) <= len(value) <= s.get("maxLength", len(value))
                and ("pattern" not in s or re.search(s["pattern"], value) is not None)
                and (s.get("format") not in FORMATS or re.fullmatch(FORMATS[s["format"]], value) is not None))
    if isinstance(value, list):
        first = s.get("prefixItems", [])
        return (s.get("minItems", 0) <= len(value) <= s.get("maxItems", len(value))
                and all(meets(v, p, root) for v, p in zip(value, first))
                and all(meets(v, s.get("items", True), root) for v in value[len(first):]))
    if isinstance(value, dict):
        known = s.get("properties", {})
        return (set(s.get("required", [])) <= set(value)
                and s.get("minProperties", 0) <= len(value) <= s.get("maxProperties", len(value))
                and all(meets(v, known.get(k, s.get("additionalProperties", True)), root) for k, v in value.items()))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (s.get("minimum", value) <= value <= s.get("maximum", value)
                and ("exclusiveMinimum" not in s or value > s["exclusiveMinimum"])
                and ("exclusiveMaximum" not in s or value < s["exclusiveMaximum"])
                and ("multipleOf" not in s or value % s["multipleOf"] == 0)
                and (s.get("format") not in INTEGERS or -INTEGERS[s["format"]] <= value < INTEGERS[s["format"]]))
    return True


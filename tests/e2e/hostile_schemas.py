"""Schemas, patterns and choices that are made to cost much: name, what is asked, and what may come back. `refused`: 400 with
one of the codes of structured output; `answered`: 200; `either`: it is up to the limits, but one of them."""

DEEP = 30  # a request's JSON nests 64 levels


def nest(inner, n, wrap):
    for _ in range(n):
        inner = wrap(inner)
    return inner


def obj(properties, **more):
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def chain(n, last):
    """$defs of which each refers to the next."""
    return {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(n)}, f"d{n}": last}}


def doubling(n):
    """Each of n definitions has the next one twice: 2^n places."""
    return {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": obj({"a": {"$ref": f"#/$defs/d{i + 1}"}, "b": {"$ref": f"#/$defs/d{i + 1}"}},
                                                            required=["a", "b"]) for i in range(n)}, f"d{n}": {"type": "null"}}}


def any_of_doubling(n):
    return {"$ref": "#/$defs/d0", "$defs": {**{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]}
                                               for i in range(n)}, f"d{n}": {"type": "null"}}}


def all_of_product(n, k):
    """n anyOfs of k branches that must hold together: k^n combinations."""
    return {"allOf": [{"anyOf": [obj({f"p{i}": {"const": j}}) for j in range(k)]} for i in range(n)]}


def schemas():
    string = {"type": "string"}
    return [
        # references
        ("a reference to itself", {"$ref": "#"}, "refused"),
        ("two that refer to each other", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "refused"),
        ("a cycle through anyOf", {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}, "refused"),
        ("a cycle through allOf", {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}}, "$ref": "#/$defs/a"}, "refused"),
        ("a value that never ends", obj({"a": {"$ref": "#"}}, required=["a"]), "refused"),
        ("an array that never ends", {"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "refused"),
        ("recursion that may end", obj({"a": {"$ref": "#"}}), "answered"),
        ("lists of lists", {"type": "array", "items": {"$ref": "#"}}, "answered"),
        ("a chain of 10,000", chain(10000, {"type": "null"}), "either"),
        ("doubling, 2^40 places", doubling(40), "either"),
        ("doubling, 2^58 places", doubling(58), "either"),
        ("doubling, deeper than answers go", doubling(100), "either"),
        ("anyOf doubling, 2^40 branches", any_of_doubling(40), "either"),
        ("a reference to nothing", {"$ref": "#/$defs/nothing"}, "refused"),
        ("a reference to another document", {"$ref": "http://127.0.0.1:1/x.json"}, "refused"),
        ("a reference to a file", {"$ref": "file:///etc/passwd"}, "refused"),
        ("a reference of 1 MB", {"$ref": "#/" + "a/" * 400000}, "refused"),
        ("a reference into an annotation", {"$ref": "#/title", "title": "x"}, "refused"),
        ("a dynamic reference", {"$dynamicRef": "#x"}, "refused"),
        # branches
        ("anyOf of 10,000 objects", {"anyOf": [obj({f"p{i}": string}, required=[f"p{i}"]) for i in range(10000)]}, "either"),
        ("anyOf of 10,000 strings", {"anyOf": [{"const": f"s{i}"} for i in range(10000)]}, "either"),
        ("anyOf of 2,000 patterns", {"anyOf": [{"type": "string", "pattern": f"^.*{i}.*$"} for i in range(2000)]}, "either"),
        ("anyOf of 1,000 wide patterns", {"anyOf": [{"type": "string", "pattern": f"(a|b|c)*{i}(a|b)*{i}"} for i in range(1000)]}, "either"),
        ("oneOf of 1,000", {"oneOf": [{"const": i} for i in range(1000)]}, "either"),
        ("oneOf that overlap", {"oneOf": [{"type": "number"}, {"type": "integer"}]}, "refused"),
        ("a product of 2^20", all_of_product(20, 2), "either"),
        ("a product of 10^8", all_of_product(8, 10), "either"),
        ("allOf of 10,000", {"allOf": [{"type": "string"}] * 10000}, "either"),
        ("allOf that exclude each other", {"allOf": [{"type": "string"}, {"type": "null"}]}, "refused"),
        ("anyOf within anyOf, 25 deep", nest({"type": "null"}, 25, lambda s: {"anyOf": [s, {"type": "null"}]}), "either"),
        # nesting
        ("objects, 25 deep", nest({"type": "null"}, 25, lambda s: obj({"a": s}, required=["a"])), "answered"),
        ("arrays, 50 deep", nest({"type": "null"}, 50, lambda s: {"items": s, "type": "array", "minItems": 1}), "answered"),
        ("deeper than a request may be", nest({}, 70, lambda s: {"items": s}), "refused"),
        ("deeper than an answer may be", chain(1, nest({"type": "null"}, 25, lambda s: obj({"a": s}, required=["a"]))), "answered"),
        # sizes
        ("an enum of 1 MB", {"enum": ["x" * 90 + str(i) for i in range(9500)]}, "either"),
        ("an enum past 1 MB", {"enum": ["x" * 90 + str(i) for i in range(13000)]}, "refused"),
        ("an enum of one string of 900 KB", {"enum": ["x" * 900000]}, "either"),
        ("an enum of 100,000 numbers", {"enum": list(range(100000))}, "either"),
        ("10,000 properties", obj({f"p{i}": {"type": "null"} for i in range(10000)}), "either"),
        ("10,000 required properties", obj({f"p{i}": {"type": "null"} for i in range(10000)}, required=[f"p{i}" for i in range(10000)]), "either"),
        ("2,000 properties in any number", obj({f"p{i}": {"type": "null"} for i in range(2000)}, minProperties=1000), "either"),
        ("a name of 500 KB", obj({"x" * 500000: {"type": "null"}}), "either"),
        ("names that begin alike", obj({"a" * i: {"type": "null"} for i in range(1, 800)}), "either"),
        ("required that is nowhere", {"type": "object", "required": ["a"], "additionalProperties": False}, "refused"),
        ("10,000 definitions that nobody uses", {"type": "null", "$defs": {f"d{i}": {"not": {}} for i in range(10000)}}, "either"),
        ("minItems of 10^9", {"type": "array", "items": {"type": "null"}, "minItems": 10**9}, "refused"),
        ("maxItems of 10^9", {"type": "array", "items": {"type": "null"}, "maxItems": 10**9}, "either"),
        ("minLength of 10^9", {"type": "string", "minLength": 10**9}, "either"),
        ("maxLength of 10^18", {"type": "string", "maxLength": 10**18}, "either"),
        ("minLength above maxLength", {"type": "string", "minLength": 5, "maxLength": 4}, "refused"),
        ("a long pattern and a longer length", {"type": "string", "pattern": "^([a-z]{1,900}-)*$", "minLength": 10**5, "maxLength": 10**6},
         "either"),
        ("lengths that no period ends", {"type": "string", "pattern": "^((a{97}|b{89})*|(c{83})*|(d{79})*|(e{73})*)$", "minLength": 10**6},
         "either"),
        ("counts in counts", {"type": "array", "minItems": 1000, "maxItems": 5000, "items": {
            "type": "array", "minItems": 1000, "maxItems": 5000, "items": {"type": "string", "minLength": 1000, "maxLength": 5000}}}, "either"),
        ("patternProperties, 1,000", {"type": "object", "patternProperties": {f"^p{i}": {"type": "null"} for i in range(1000)}}, "refused"),
        # numbers
        ("a minimum of 10^300", {"type": "number", "minimum": 1e300}, "either"),
        ("a minimum of 400 digits", {"type": "integer", "minimum": 10**308 - 1}, "either"),
        ("multipleOf 10^9", {"type": "integer", "multipleOf": 10**9}, "refused"),
        ("multipleOf 0", {"type": "integer", "multipleOf": 0}, "refused"),
        ("a range without a number", {"type": "integer", "minimum": 5, "maximum": 4}, "refused"),
        ("a fraction that is none", {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "refused"),
        # what is no schema
        ("a number", 5, "refused"),
        ("an array", [1], "refused"),
        ("false", False, "refused"),
        ("type of a word", {"type": "no such"}, "refused"),
        ("properties that are a list", {"properties": ["a"]}, "refused"),
        ("not of everything", {"not": {}}, "refused"),
        ("a word that is not known", {"type": "string", "noSuchKeyword": 1}, "refused"),
        ("if and then", {"if": {"type": "string"}, "then": {"minLength": 1}}, "refused"),
        ("unevaluatedProperties", {"type": "object", "unevaluatedProperties": False}, "refused"),
    ]


def patterns():
    return [
        ("a quantifier of quantifiers", "((a{1,100}){1,100}){1,100}", "refused"),
        ("the same, smaller", "(a{1,60}){1,60}", "either"),
        ("exponential for who backtracks", "(a+)+b", "answered"),
        ("the same with alternatives", "(a|aa)+b", "answered"),
        ("a DFA of 2^20 states", "(a|b)*a(a|b){20}", "refused"),
        ("a DFA of 2^40 states", "(.)*x.{40}", "refused"),
        ("a count of 10^9", "a{1000000000}", "refused"),
        ("a count past the limit", "a{10001}", "refused"),
        ("a count of code points", "[\U00010000-\U0010ffff]{5000}", "either"),
        ("groups, 60 deep", "(" * 60 + "a" + ")" * 60, "answered"),
        ("groups, 70 deep", "(" * 70 + "a" + ")" * 70, "refused"),
        ("groups, 100,000 deep", "(" * 100000, "refused"),
        ("100,000 alternatives", "|".join(f"x{i}" for i in range(100000)), "either"),
        ("1 MB of dots", "." * 1000000, "either"),
        ("past 1 MB", "a" * 1100000, "refused"),
        ("10,000 optional ones", "a?" * 10000, "either"),
        ("10,000 optional ones of a class", "[a-z]?" * 10000, "either"),
        ("stars of stars", "((((((a*)*)*)*)*)*)*b", "answered"),
        ("nothing can match", "[^\\s\\S]", "refused"),
        ("a look-ahead", "(?=a)b", "refused"),
        ("a reference back", "(a)\\1", "refused"),
        ("an open class", "[a", "refused"),
        ("an open group", "(a", "refused"),
        ("nothing to repeat", "*a", "refused"),
        ("a class turned around", "[z-a]", "refused"),
        ("a property of Unicode", "\\p{L}{3}", "either"),
        ("a trailing backslash", "a\\", "refused"),
        ("nothing", "", "either"),
    ]


def choices():
    return [
        ("60,000 choices", [f"choice {i}" for i in range(60000)], "either"),
        ("one of 1 MB", ["x" * 1000000], "either"),
        ("past 1 MB", ["x" * 600000, "y" * 600000], "refused"),
        ("that begin alike", ["a" * i for i in range(1, 1200)], "either"),
        ("the same a thousand times", ["same"] * 1000, "answered"),
        ("nothing", [""], "either"),
        ("nothing or something", ["", "a"], "answered"),
        ("control characters", ["\u0001\u0002\n"], "either"),
    ]

"""The environment in which Hugging Face's apply_chat_template renders, for making fixtures and for comparing.

Needs jinja2 3.1.6. Nothing that the project builds or tests by itself imports this."""
import datetime
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)
NOW_UNIX = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def render(self, context, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(fmt):
    return NOW.strftime(fmt)


class Namespace(jinja2.utils.Namespace):
    """Attributes that begin with an underscore are refused, as in transformers 5."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now, namespace=Namespace)
    for name in ("lipsum", "cycler", "joiner"):
        env.globals.pop(name)
    return env


ENV = environment()


def render(template, messages=None, tools=None, add_generation_prompt=False, **variables):
    """The text, or None where Jinja refuses the template or fails."""
    try:
        text = ENV.from_string(template).render(messages=messages if messages is not None else [], tools=tools,
                                                documents=variables.pop("documents", None),
                                                add_generation_prompt=add_generation_prompt, **variables)
        text.encode()
        return text
    except Exception:
        return None

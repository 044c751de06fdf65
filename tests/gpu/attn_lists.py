"""What of attention's GPU harnesses needs no torch: ctypes structures and constants as the headers have them, the host's
attn_map.c as a library, and its task lists."""
import ctypes as ct
import os
import re
import subprocess
import tempfile
from types import SimpleNamespace

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
HEADERS = ["core/limits.h", "kv/kv_view.h", "attention/cuda/attn_stripe.h", "attention/cuda/attn_cuda.h", "attention/attention.h",
           "attention/cuda/attn_map.h"]
HOST = ["attention/cuda/attn_map.c", "core/sort.c", "core/status.c", "core/check.c", "core/log.c", "core/clock.c"]
E4M3 = 3  # LF_E4M3 of core/dtype.h
MOST_SMS = 8192  # a GPU so large that attn_map.c splits whatever is worth it on any


def array_of(kind, name, constants):
    """(name, kind) of a field that may be an array of a constant's length, or of one more."""
    m = re.fullmatch(r"(\w+)\[(\w+)( \+ 1)?\]", name)
    return (m[1], kind * (constants.get(m[2]) + (1 if m[3] else 0))) if m else (name, kind)


def read_headers():
    """Constants by name; ctypes structures by name without lf_: pointers are addresses, enums are ints, and `elements` has
    the structure that an address is of."""
    kinds = {"int": ct.c_int, "int32_t": ct.c_int32, "int64_t": ct.c_int64, "bool": ct.c_bool, "float": ct.c_float}
    constants, structures = {}, {}
    for header in HEADERS:
        with open(os.path.join(ROOT, header)) as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        constants.update((m[1], int(m[2])) for m in re.finditer(r"\b(LF_\w+) = (\d+)", text))
        for name, body in re.findall(r"\bstruct lf_(\w+) \{([^{}]*)\};", text):
            fields, elements = [], {}
            for kind, names in re.findall(r"(?:const\s+)?((?:struct |enum )?\w+)\s+([^;]+);", body):
                for field in (x.strip() for x in names.split(",")):
                    if field.startswith("*"):
                        fields.append(array_of(ct.c_void_p, field.lstrip("* "), constants))
                        elements[fields[-1][0]] = structures.get(kind[len("struct lf_"):])
                    elif kind.startswith("struct "):
                        fields.append((field, structures[kind[len("struct lf_"):]]))
                    else:
                        fields.append(array_of(ct.c_int if kind.startswith("enum ") else kinds[kind], field, constants))
            # __slots__: a name that is no field of it is refused, not kept beside it.
            structures[name] = type(name, (ct.Structure,), {"__slots__": (), "_fields_": fields, "elements": elements})
    return constants, structures


E, S = read_headers()


def check(rc, what):
    if rc != 0:
        raise RuntimeError(f"{what}: error {rc}")


def host_library(cc="cc"):
    """attn_map.c alone, as the compiler cc makes it: lists can be made and looked at on any machine."""
    out = os.path.join(tempfile.mkdtemp(), "attn_map.so")
    subprocess.run([cc, "-std=gnu11", "-O1", "-shared", "-fPIC", "-I" + ROOT, *(os.path.join(ROOT, x) for x in HOST), "-o", out,
                    "-lm", "-lpthread"], check=True)
    return ct.CDLL(out)


# ---- task lists ----


def sms_for(store, entries, window, share):
    """Of a GPU on which `share` keys of decode tokens fall to each multiprocessor; the largest where there are none."""
    group, keys = store.h // store.hk, 0
    for _, n_tokens, kv_len, is_decode in entries:
        if is_decode:
            keys += min(kv_len, window or kv_len) * -(-n_tokens * group // E["LF_ATTN_DECODE_ROWS"]) * store.hk
    return min(MOST_SMS, max(1, keys // share)) if keys else MOST_SMS


def task_lists(lib, store, entries, window, n_sms, n_partial=None, split=None):
    """Lists of attn_map.c for entries (sequence, n_tokens, kv_len, is_decode), and the partial rows that they use.

    split None: what it says for a GPU of n_sms multiprocessors. False: what it says without room for partial rows, so that
    all is whole. A number: what it says for a GPU on which so many keys of decode tokens fall to each multiprocessor; 1, or
    True, splits all that is long enough. n_partial: room for so many partial rows at most."""
    kv_dtype = 0 if getattr(store, "pages", None) is None else E4M3
    shape = S["attn_shape"](store.h, store.hk, store.d, kv_dtype, sum(e[1] for e in entries), len(entries), max(e[2] for e in entries))
    m, err = S["attn_map"](), ct.create_string_buffer(4096)
    if split:
        n_sms = sms_for(store, entries, window, int(split))
    check(lib.lf_attn_map_init(ct.byref(m), ct.byref(shape), n_sms, err), "lf_attn_map_init")
    if split is False:
        n_partial = 0
    if n_partial is not None:
        m.caps.n_partial_rows = min(m.caps.n_partial_rows, n_partial)
    seqs, blocks, token = (S["kv_seq"] * len(entries))(), [], 0
    for x, (i, n_tokens, kv_len, is_decode) in zip(seqs, entries):
        blocks.append((ct.c_int32 * len(store.tables[i]))(*store.tables[i]))
        x.blocks, x.first_token, x.n_tokens, x.kv_len, x.is_decode = ct.addressof(blocks[-1]), token, n_tokens, kv_len, is_decode
        token += n_tokens
    lib.lf_attn_map_build(ct.byref(m), seqs, len(entries), window)
    lib.lf_attn_map_tables(ct.byref(m), seqs, 0)

    def copied(name, n):
        kind = m.elements[name] or ct.c_int32
        return (kind * n).from_buffer_copy(ct.string_at(getattr(m, name), n * ct.sizeof(kind)))

    c = m.counts
    lists = SimpleNamespace(prefill=copied("prefill", c.n_prefill), decode=copied("decode", c.n_decode),
                            combine=copied("combine", c.n_combine + m.n_combine_prefill),
                            n_combine_prefill=m.n_combine_prefill, seqs=copied("seqs", c.n_seqs),
                            tables=copied("tables", m.n_tables), counts=type(c).from_buffer_copy(c))
    lib.lf_attn_map_deinit(ct.byref(m))
    tasks = (*lists.prefill, *lists.decode)
    lists.n_partial = max((t.slot + t.n_rows for t in tasks if t.slot >= 0), default=0)
    return lists

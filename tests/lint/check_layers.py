#!/usr/bin/env python3
"""Layers: a folder includes only what lies below it, and outside libraries only where they belong."""
import re
import sys

import source

CUDA = ["cuda.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "cuda_runtime_api.h"]

# folder: (what it may include, its own files aside; outside libraries it may use)
FLOORS = {
    "core": ([], ["nettle/memops.h", "nettle/sha2.h", "nettle/version.h"]),
    "device": (["core/"], [*CUDA, "cublasLt.h"]),
    "tokenizer": (["core/"], ["sentencepiece_processor.h", "pcre2.h"]),
    "template": (["core/", "tokenizer/tokenizer.h", "grammar/grammar.h"], []),
    "grammar": (["core/"], []),
    "kv": (["core/", "device/"], []),
    "attention": (["core/", "device/", "kv/kv_view.h", "kv/kv_fp8.h"], CUDA),
    "model": (["core/", "device/", "kv/", "attention/"], ["pcre2.h"]),
    "server/documents": (["core/"], []),
    "server/rendezvous": (["core/"], []),
    "server/engine": (["core/", "device/device.h", "device/delta.h", "kv/", "model/", "grammar/grammar.h"], []),
    "server/http": (["core/", "tokenizer/tokenizer.h", "tokenizer/decoder.h", "tokenizer/detok.h", "tokenizer/stop.h", "template/chat_template.h", "template/answer_format.h", "template/answer_vocabulary.h", "template/tools.h", "grammar/grammar.h",
                     "server/documents/documents.h", "server/documents/keeper.h", "server/engine/engine.h", "server/engine/request.h"], ["microhttpd.h"]),
    "server": (["core/", "device/comm.h", "device/device.h", "tokenizer/tokenizer.h", "tokenizer/detok.h", "template/chat_template.h", "template/answer_format.h", "template/answer_vocabulary.h", "template/tools.h", "grammar/grammar.h", "kv/", "model/", "server/documents/document_folder.h", "server/engine/engine.h",
                "server/http/conn/http_server.h", "server/rendezvous/rendezvous.h", "server/rendezvous/secret.h", "server/rendezvous/launchers.h"], []),
}
# Headers of a folder that its neighbours may see; the rest is its own business.
PUBLIC_OF_DEVICE = {"device/comm.h", "device/delta.h", "device/device.h", "device/gate.h", "device/ops.h", "device/experts.h", "device/sample.h", "device/cpu/threads.h", "device/cpu/vec.h", "device/cpu/vec_math.h", "device/cuda/cuda.h"}
OUTSIDE = {"sentencepiece_processor.h", "pcre2.h", "microhttpd.h", "cmocka.h", "cublasLt.h", *CUDA}
OUTSIDE_FOLDERS = ("nettle/",)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def floor_of(path):
    for floor in ("server/documents", "server/engine", "server/http", "server/rendezvous"):
        if path.startswith(floor + "/"):
            return floor
    return path.split("/")[0]


def check_text(path, text):
    floor = floor_of(path)
    may_include, may_use = FLOORS[floor]
    problems = []
    for m in INCLUDE.finditer(source.blank(text, strings=False)):
        kind, name = m.groups()
        where = f"{path}:{text.count(chr(10), 0, m.start(2)) + 1}"
        if kind == "<":
            if (name in OUTSIDE or name.startswith(OUTSIDE_FOLDERS)) and name not in may_use:
                problems.append(f"{where}: {floor}/ may not use <{name}>")
            continue
        if "/" not in name:
            problems.append(f'{where}: includes are written from the root, got "{name}"')
        elif floor_of(name) == floor:
            continue
        elif not any(name == p or (p.endswith("/") and name.startswith(p)) for p in may_include):
            problems.append(f'{where}: {floor}/ may not include "{name}"')
        elif name.startswith("device/cuda/") and name.endswith(".cuh") and path.endswith((".cu", ".cuh")):
            continue  # what kernels share
        elif name.startswith("device/") and name not in PUBLIC_OF_DEVICE:
            problems.append(f'{where}: "{name}" is private to device/')
    return problems


def self_test():
    found = check_text("core/a.c", '#include "device/device.h"\n')
    found += check_text("attention/a.c", '#include "kv/kv_view.h"\n#include "kv/kv_cache.h"\n#include "core/str.h"\n')
    found += check_text("server/http/a.c", '// #include "model/model.h"\n#  include "model/model.h"\n#include <microhttpd.h>\n')
    found += check_text("server/engine/a.c", '#include <microhttpd.h>\n#include "engine.h"\n')
    found += check_text("model/a.c", '#include "device/cpu/gemm_cpu.h"\n#include "device/ops.h"\n')
    found += check_text("model/b.c", '#include <cuda_runtime.h>\n')
    found += check_text("attention/b.cu", '#include <cuda_runtime.h>\n#include <cublasLt.h>\n')
    found += check_text("kv/a.c", '#include <nettle/sha2.h>\n')
    found += check_text("core/b.c", '#include <nettle/sha2.h>\n#include <nettle/md5.h>\n')
    found += check_text("server/documents/a.c", '#include "core/str.h"\n#include "server/engine/engine.h"\n')
    found += check_text("server/rendezvous/a.c", '#include "core/str.h"\n#include "model/model.h"\n')
    found += check_text("server/a.c", '#include "server/http/sse.h"\n#include "server/config.h"\n')
    source.expect("layers", found, ["core/a.c:1", "attention/a.c:2", "http/a.c:2", "engine/a.c:1", "engine/a.c:2",
                                    "private to device/", "model/b.c:1", "attention/b.cu:2", "kv/a.c:1", "core/b.c:2", "documents/a.c:2", "rendezvous/a.c:2", "server/a.c:1"])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    problems = []
    for path in source.files(source.FOLDERS, [".c", ".h", ".cc", ".cu", ".cuh"]):
        problems += check_text(path, source.read(path))
    source.finish(problems)


if __name__ == "__main__":
    main()

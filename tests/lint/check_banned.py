#!/usr/bin/env python3
"""What must not stand in the sources: calls that cannot be used safely, marks of unfinished work, typedefs of structs,
files mapped into memory, paths of somebody's machine; in device code a second way to do what device/cuda/ does in one."""
import re
import sys

import source

# These words are put together here, so that this file does not find itself.
CALLS = ("strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof system popen alloca rand srand gmtime localtime "
         "asctime ctime scanf fscanf sscanf vsscanf vscanf setjmp longjmp").split()
CALL = re.compile(r"(?<![\w.>])(" + "|".join(CALLS) + r")\s*\(")
OPEN_WORK = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
UNFINISHED = re.compile(r"\b(" + "st" + "ub" + "(bed|s)?|not " + "implemented yet|for " + "now)\\b", re.I)
MACHINE = re.compile(r"(?<![\w.])/(" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"]) + r")/")
TYPEDEF = re.compile(r"\btypedef\s+(struct|union|enum)\b(?=[^;(]*[;{])")
MMAP = re.compile(r"(?<![\w.>])mmap\s*\(([^;]*)\)")

# Device code: what only one file writes (device/cuda/launch.cuh says the rules).
DEVICE = [
    (re.compile(r"\basm\b"), "device/cuda/ptx", "PTX stands in device/cuda/ptx*.cuh"),
    (re.compile(r"\b__device__\b"), "device/cuda/ptx.cuh", "device functions are LF_GPU_FN or LF_GPU_MEMBER"),
    (re.compile(r"\bcudaLaunchKernelEx\b|<<<"), "device/cuda/launch.cuh", "kernels are launched by queue_kernel"),
    (re.compile(r"\bcudaFuncSetAttribute\b"), "device/cuda/launch.cuh", "kernels are loaded by load_kernel"),
    (re.compile(r"\b0xffffffffu\s*,|\b_sync\(~0u"), "device/cuda/warp.cuh", "all lanes of a warp are ALL_LANES"),
]

TEXT_ENDINGS = [".c", ".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".txt", ".cmake", ".md", ".json", "Dockerfile", "run"]
CODE_ENDINGS = (".c", ".h", ".cc", ".cu", ".cuh")


def check_text(path, text):
    problems = []

    def say(m, offset_text, message):
        line = offset_text.count("\n", 0, m.start()) + 1
        problems.append(f"{path}:{line}: {message}")

    if path.endswith(CODE_ENDINGS):
        code = source.blank(text)
        for m in CALL.finditer(code):
            # tests may jump: cmocka's own header asks for it
            say(m, code, f"{m.group(1)}() is banned")
        for m in TYPEDEF.finditer(code):
            say(m, code, f"typedef of a {m.group(1)}: structs are written out")
        for m in MMAP.finditer(code):
            if "MAP_ANONYMOUS" not in m.group(1):
                say(m, code, "files are read, never mapped")
    if path.endswith((".cu", ".cuh")):
        for pattern, home, message in DEVICE:
            if not path.startswith(home):
                for m in pattern.finditer(source.blank(text)):
                    say(m, text, message)
    for m in OPEN_WORK.finditer(text):
        say(m, text, f"{m.group(1)}: finish it, or refuse by name")
    if path.endswith(CODE_ENDINGS + (".py", ".sh")):
        for m in UNFINISHED.finditer(text):
            say(m, text, f'"{m.group(0)}": unfinished work')
    for m in MACHINE.finditer(text):
        say(m, text, f"a path of one machine: {m.group(0)}")
    return problems


def self_test():
    found = check_text("core/a.c", "strcpy(a, b); x.system(1); my_rand(2); // sprintf(a)\n\"gets(\";\n")
    found += check_text("core/b.c", "typedef struct x y;\ntypedef enum e (*fn)(int);\n" + "p = mmap(0, n, PROT_READ, MAP_PRIVATE, fd, 0);\n"
                        "q = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n")
    found += check_text("core/c.c", "// " + "TO" + "DO later\n")
    found += check_text("core/d.c", "// a " + "st" + "ub\n")
    found += check_text("README.md", "cd /ro" + "ot/x; a/wo" + "rk/b\n")
    found += check_text("kv/a.cu", "LF_GPU_FN void f()\n{\n    asm(\"nop;\");\n}\n" + "__device__ int g();\nk<<<1, 2>>>();\n"
                        "cudaFuncSetAttribute(k, a, 1);\n__shfl_sync(0xffffffffu, x, 0);\n")
    found += check_text("device/cuda/ptx_x.cuh", "LF_GPU_FN void f()\n{\n    asm(\"nop;\");\n}\n")
    source.expect("banned", found, ["strcpy()", "typedef of a struct", "never mapped", "c.c:1", "d.c:1", "README.md:1", "kv/a.cu:3",
                                    "kv/a.cu:5", "kv/a.cu:6", "kv/a.cu:7", "kv/a.cu:8"])


def main():
    if "--self-test" in sys.argv:
        return self_test()
    problems = []
    for path in source.files(["."], TEXT_ENDINGS):
        path = path[2:] if path.startswith("./") else path
        if path.startswith(("build/", "demo/train/", "demo/document", ".git/")):
            continue
        problems += check_text(path, source.read(path))
    source.finish(problems)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The sources are as clang-format leaves them. Skipped (status 77) where there is no clang-format 14, the version whose
output is meant: others break lines elsewhere."""
import re
import shutil
import subprocess
import sys

import source


def find_clang_format():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and re.search(r"version 14\.", subprocess.run([path, "--version"], capture_output=True, text=True).stdout):
            return path
    return None


def main():
    tool = find_clang_format()
    if not tool:
        print("no clang-format 14: skipped")
        sys.exit(77)
    if "--self-test" in sys.argv:
        for name in ("a.c", "a.cu", "a.cuh"):
            done = subprocess.run([tool, "--dry-run", "--Werror", "--assume-filename=" + name], input="int  x ;\n",
                                  text=True, cwd=source.ROOT, capture_output=True)
            if done.returncode == 0:
                sys.exit("self-test format: bad text passed in " + name)
        return
    paths = source.files(source.FOLDERS + ["tests"], [".c", ".h", ".cc", ".cu", ".cuh"])
    done = subprocess.run([tool, "--dry-run", "--Werror", *paths], cwd=source.ROOT, capture_output=True, text=True)
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    source.finish([f"{path}: not as clang-format leaves it" for path in bad] or
                  ([done.stderr] if done.returncode != 0 else []))


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# Everything that is tested and measured on a GPU, in one command, in about ten minutes on an H100:
#
#     tests/gpu/run.sh [OUT_DIR] [tests|bench]
#
# Builds build/release with the GPU backend where it is missing. OUT_DIR (default build/gpu) gets the CSV files; those in
# the repository are copies of such a run. The attention harnesses need PyTorch; without it they are named and left out.
set -eu
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:-build/gpu}")
part=${2:-all}
bin=build/release
failed=()
mkdir -p "$out"

step() { # step NAME COMMAND…
    echo "== $1 ($SECONDS s)"
    shift
    "$@" || failed+=("$*")
}

if [ ! -x "$bin/longflash" ]; then
    cmake --preset release -DLF_CUDA=ON >/dev/null
    cmake --build "$bin" -j "$(nproc)" >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }
fi
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
has_torch=no
python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && has_torch=yes
if [ "$has_torch" = yes ]; then
    if [ -z "${LF_ATTN_SO:-}" ]; then
        export LF_ATTN_SO=$out/attn.so
        step "attention's kernels as a library" python3 tests/gpu/attn_kernels.py "$LF_ATTN_SO"
    fi
else
    echo "no PyTorch with CUDA: the attention harnesses and peers are left out"
fi

if [ "$part" != bench ]; then
    step "ops, sampling, RoPE" ctest --test-dir "$bin" -L gpu --output-on-failure
    if [ "$has_torch" = yes ]; then
        step "attention: prefill on Hopper" python3 tests/gpu/attn_prefill.py
        step "attention: decode" python3 tests/gpu/attn_decode.py
        step "attention: portable" python3 tests/gpu/attn_portable.py
    fi
    # Every option can come from the environment: the same end-to-end tests, on the GPU.
    step "end to end" env LONGFLASH_DEVICE=cuda:0 ctest --test-dir "$bin" --output-on-failure \
        -R 'e2e/(http_model|http_dummy|lifecycle|chaos)'
    step "greedy answers of the demo model" python3 tests/golden/model/demo_oracle.py \
        "$(find "$bin/tests" -name greedy_driver -type f)" --device cuda:0 --torch-device cuda --tokens 16 --kv bf16 \
        --lengths 1024,8192,32768,130000
fi
if [ "$part" != tests ]; then
    if [ "$has_torch" = yes ]; then
        step "attention beside its peers" python3 tests/bench/attention/attn_bench.py --csv "$out/prefill.csv"
        step "decode beside its peers" python3 tests/bench/attention/decode_bench.py --out "$out/decode.csv"
        step "bytes" python3 tests/bench/hbm/attn_hbm.py --csv "$out/attn_bytes.csv"
    fi
    step "ops" "$bin/tests/bench/gpu_ops/bench_gpu_ops"
    step "server, 8B shape" python3 tests/bench/e2e/gpu_e2e.py "$bin/longflash" tests/bench/shapes/llama-3.1-8b \
        --commit "$commit" --out "$out/llama-3.1-8b.csv"
fi
for f in "${failed[@]:-}"; do [ -z "$f" ] || echo "failed: $f"; done
echo "done after $SECONDS s, ${#failed[@]} failed; figures in $out"
[ "${#failed[@]}" -eq 0 ]

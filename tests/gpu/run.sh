#!/usr/bin/env bash
# Everything that is tested and measured on a GPU, in one command:
#
#     tests/gpu/run.sh [OUT_DIR] [tests|bench]
#
# Builds what is missing in build/release, with the GPU backend. OUT_DIR (default build/gpu) gets the CSV files, under the
# names they have in the repository. The attention harnesses need PyTorch, the comparison of answers sentencepiece and
# transformers as well, or instead of the first LF_PROMPTS, a file of demo_oracle.py --write-prompts; without them they are
# named and left out. Without a GPU nothing runs and the exit status is 77.
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

case "$part" in
all | tests | bench) ;;
*)
    echo "tests/gpu/run.sh [OUT_DIR] [tests|bench]: \"$part\" is neither" >&2
    exit 2
    ;;
esac
nvidia-smi -L >/dev/null 2>&1 || {
    echo "skipped: nvidia-smi finds no GPU"
    exit 77
}
greedy=$bin/tests/golden/model/greedy_driver
bench_ops=$bin/tests/bench/gpu_ops/bench_gpu_ops
if [ ! -x "$bin/longflash" ] || [ ! -x "$greedy" ] || [ ! -x "$bench_ops" ]; then
    cmake --preset release -DLF_CUDA=ON -DBUILD_TESTING=ON >/dev/null
    cmake --build "$bin" -j "$(nproc)" >"$out/build.log" 2>&1 || { tail -n 40 "$out/build.log"; exit 1; }
fi
why=$("$bin/longflash" plan --model demo/model --device cuda:0 2>&1 >/dev/null) || {
    echo "skipped: ${why:-the demo model does not fit}"
    exit 77
}
commit=${LF_COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
n_gpus=$(nvidia-smi -L | grep -c '^GPU ')
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

server() {
    step "server, 8B shape" python3 tests/bench/e2e/gpu_e2e.py "$bin/longflash" tests/bench/shapes/llama-3.1-8b \
        --commit "$commit" --out "$out/llama-3.1-8b_h100.csv"
    for n in 2 4; do
        [ "$n_gpus" -lt "$n" ] || step "server, 8B shape, $n ranks" python3 tests/bench/e2e/gpu_e2e.py "$bin/longflash" \
            tests/bench/shapes/llama-3.1-8b --ranks "$n" --commit "$commit" --only ready,itl,ttft --ctx 40960 \
            --lengths 128,32768 --batches "" --out "$out/llama-3.1-8b_tp${n}_h100.csv" -- --kv-tokens 128K
        [ "$n_gpus" -lt "$n" ] || step "all-reduce over $n ranks" "$bin/tests/bench/comm/bench_comm" "$n"
        [ "$n_gpus" -lt "$n" ] || [ "$has_torch" = no ] || step "NCCL's" python3 tests/bench/comm/nccl_reduce.py "$n"
    done
    step "copies to the host's memory and back" "$bin/tests/bench/kv/bench_memory_tier"
    step "documents back from the host's memory" python3 tests/bench/serve/below.py "$bin/longflash" \
        tests/bench/shapes/llama-3.1-8b --out "$out/below_h100.csv" -- --device cuda:0
}

tests() {
    step "ops, sampling, RoPE" ctest --test-dir "$bin" -L gpu --output-on-failure
    step "fixtures of every family beside the CPU" python3 tests/gpu/fixtures.py "$greedy"
    [ "$n_gpus" -lt 2 ] || step "ranks" env LF_LONGFLASH="$PWD/$bin/longflash" python3 tests/gpu/ranks.py
    [ "$n_gpus" -lt 2 ] || step "tiers over ranks" env LF_LONGFLASH="$PWD/$bin/longflash" python3 tests/gpu/rank_tiers.py
    if [ "$has_torch" = yes ]; then
        step "attention: prefill on Hopper" python3 tests/gpu/attn_prefill.py --csv "$out/attn_prefill_h100.csv"
        step "attention: decode" python3 tests/gpu/attn_decode.py
        step "attention: portable" python3 tests/gpu/attn_portable.py
    fi
    if [ -n "${LF_PROMPTS:-}" ] || python3 -c 'import sentencepiece, torch, transformers' 2>/dev/null; then
        step "greedy answers of the demo model" python3 tests/golden/model/demo_oracle.py "$greedy" --device cuda:0 \
            --torch-device cuda --tokens 16 --kv bf16 --lengths 1024,8192,32768,65536,130000 \
            ${LF_PROMPTS:+--prompts "$LF_PROMPTS"}
        step "the same in fp16" python3 tests/golden/model/demo_oracle.py "$greedy" --device cuda:0 --torch-device cuda \
            --dtype float16 --kv f16 --tokens 16 --lengths 1024,8192 ${LF_PROMPTS:+--prompts "$LF_PROMPTS"}
    else
        echo "no sentencepiece, PyTorch and transformers: the comparison of answers is left out"
    fi
    # Every option can come from the environment: the same end-to-end tests, on the GPU. They want the same bytes from a
    # request alone and among others: in steps of up to 16 rows a row's bits are its own (device/ops.h).
    step "end to end" env LONGFLASH_DEVICE=cuda:0 LONGFLASH_CHUNK=16 ctest --test-dir "$bin" --output-on-failure \
        -R 'e2e/(http_model|http_dummy|http_tools|structured|lifecycle|chaos)'
}

kernels() {
    if [ "$has_torch" = yes ]; then
        step "decode beside its peers" python3 tests/bench/attention/decode_bench.py --out "$out/decode.csv" \
            decode tokens short fp8
        step "portable prefill beside its peers" python3 tests/bench/attention/decode_bench.py \
            --out "$out/prefill_portable.csv" prefill
        step "prefill beside its peers" python3 tests/bench/attention/attn_bench.py --csv "$out/prefill_h100.csv"
        step "bytes" python3 tests/bench/hbm/attn_hbm.py --csv "$out/attn_h100.csv"
    fi
    driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0 2>/dev/null || echo unknown)
    step "ops" "$bench_ops" --csv "$out/gpu_ops_h100.csv" --driver "$driver" --commit "$commit"
    step "ops of experts" "$bin/tests/bench/gpu_ops/bench_gpu_experts" --csv "$out/gpu_experts_h100.csv" --driver "$driver" \
        --commit "$commit"
    [ "$has_torch" = no ] || step "gated delta nets" python3 tests/bench/gpu_ops/delta_bench.py --csv "$out/gpu_delta_h100.csv" \
        --commit "$commit"
    [ "$has_torch" = no ] || step "FP8 GEMM" python3 tests/bench/gpu_ops/gemm_fp8_bench.py --csv "$out/gpu_gemm_fp8_h100.csv" \
        --commit "$commit"
    [ "$has_torch" = no ] || step "PyTorch's GEMM of experts" python3 tests/bench/gpu_ops/grouped_mm.py
}

[ "$part" = tests ] || server
[ "$part" = bench ] || tests
[ "$part" = tests ] || kernels
for f in "${failed[@]:-}"; do [ -z "$f" ] || echo "failed: $f"; done
echo "done after $SECONDS s, ${#failed[@]} failed; figures in $out"
[ "${#failed[@]}" -eq 0 ]

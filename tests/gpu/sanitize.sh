#!/usr/bin/env bash
# compute-sanitizer over every program of this folder that runs kernels: memcheck (addresses, leaks of none of our
# business) and racecheck (shared memory).
#
#     tests/gpu/sanitize.sh [OUT_DIR] [JOBS]
#
# Needs a build with the GPU backend in build/release, and PyTorch for attention's harnesses (built into LF_ATTN_SO, else
# into OUT_DIR). gpu/faults is left out: it makes errors on purpose. Logs and a table in OUT_DIR (default build/gpu). A
# program that skips itself, fails, or is not done after LF_SANITIZE_SECONDS (default 500) has failed; LF_GPU_PART=1 for all
# repeats and random cases (an hour), not a 16th of them. 77 without a GPU.
set -u
cd "$(dirname "$0")/../.."
out=$(realpath -m "${1:-build/gpu}")
jobs=${2:-1}
bin=build/release/tests/gpu
seconds=${LF_SANITIZE_SECONDS:-500}
export LF_GPU_PART=${LF_GPU_PART:-16}
mkdir -p "$out"

nvidia-smi -L >/dev/null 2>&1 || {
    echo "skipped: nvidia-smi finds no GPU"
    exit 77
}
if [ -z "${LF_ATTN_SO:-}" ]; then
    export LF_ATTN_SO=$out/attn.so
    python3 tests/gpu/attn_kernels.py "$LF_ATTN_SO" || exit 1
fi

names=(ops gemm_fp8 fp8_op delta delta_rows sample fused_norm rope stripes attn_dims attn_fp8 attn_prefill attn_decode attn_portable)
command_of() {
    case "$1" in
    attn_prefill) echo "python3 tests/gpu/attn_prefill.py --small" ;;
    attn_dims) echo "$bin/gpu_attn_dims sequences*" ;;
    attn_fp8) echo "$bin/gpu_attn_dims fp8*" ;;
    stripes) echo "$bin/gpu_stripes *bits_alone" ;;
    attn_*) echo "python3 tests/gpu/$1.py --sanitize" ;;
    *) echo "$bin/gpu_$1" ;;
    esac
}

# check TOOL NAME: one line with what the sanitizer closes with. racecheck takes cuBLASLt's kernels (nvjet_…) for racing,
# whose shared memory the bulk copy engine writes: what it says of them is counted apart.
check() {
    local log=$out/$1-$2.log began=$SECONDS rc=0 said theirs=0 state=FAILED
    # Under racecheck a graph's launch does not end (not in 400 s, where memcheck takes two): the graphs of sample and
    # delta are left out there. Their kernels are those of the other tests.
    [[ "$1 $2" = racecheck\ @(sample|delta) ]] && export LF_GPU_SKIP='a_graph_*'
    # PyTorch asks for things that fail and goes on: its calls are not ours to judge, our kernels' accesses are.
    timeout "$seconds" compute-sanitizer --tool "$1" --target-processes all --report-api-errors no \
        $(command_of "$2") >"$log" 2>&1 || rc=$?
    said=$(grep -aE '^========= (ERROR|RACECHECK) SUMMARY' "$log" | tail -n 1 | sed 's/^=* [A-Z]* SUMMARY: //')
    [ "$1" = memcheck ] || theirs=$(grep -ac 'Race reported between .* nvjet_' "$log")
    case "$rc $said" in
    "0 0 "*) state=clean ;;
    "0 "?*) [ "$theirs" -gt 0 ] && [ "$theirs" = "$(grep -ac 'Race reported' "$log")" ] && state=clean said="$said, all of cuBLASLt" ;;
    esac
    printf '%-6s %-10s %-14s %4d s  exit %d  %s\n' "$state" "$1" "$2" $((SECONDS - began)) "$rc" "${said:-no summary}"
}
export -f check command_of
export out bin seconds

for name in "${names[@]}"; do
    for tool in racecheck memcheck; do echo "$tool $name"; done
done | xargs -P "$jobs" -L 1 bash -c 'check "$0" "$1"' | tee "$out/sanitize.txt"
n_clean=$(grep -c '^clean ' "$out/sanitize.txt")
echo "sanitize: $n_clean of $((2 * ${#names[@]})) clean after $SECONDS s"
[ "$n_clean" = $((2 * ${#names[@]})) ]

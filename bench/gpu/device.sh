#!/usr/bin/env bash
# Everything that needs a GPU, in the order in which a failure would explain the next one (docs/cuda.md, "On a device"):
# primitives, small workloads, the sanitizer, a profile of the device, times beside cuBLAS, cuDNN and Triton, prediction against measurement.
#
#   bench/gpu/device.sh [-b BUILD] [-p PROFILE] [-d DEVICE] [-w WORKLOADS] [-o RESULTS]
#
# BUILD: a built tree (default: build/release). PROFILE: of the device (default: measured now). WORKLOADS: what is timed (default:
# tests/data/workloads.json). What is not installed is skipped and said.
# The exit status is 0 if all that could be done passed; 77 without a device.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build/release profile='' device=0 workloads=$root/tests/data/workloads.json results=$root/bench/results
while getopts b:p:d:w:o:h option; do
  case $option in
    b) build=$(cd "$OPTARG" && pwd) ;;
    p) profile=$OPTARG ;;
    d) device=$OPTARG ;;
    w) workloads=$OPTARG ;;
    o) results=$OPTARG ;;
    *) sed -n '2,10p' "$0"; exit 2 ;;
  esac
done
rgen=$build/bin/rgen
[ -x "$rgen" ] && [ -x "$build/bin/rgen_test_device" ] || { echo "no rgen or rgen_test_device in $build/bin: build it, or name a build with -b" >&2; exit 2; }
mkdir -p "$results"
export RGEN_CACHE_DIR=${RGEN_CACHE_DIR:-$build/device-cache}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
step() { echo; echo "== $1"; }
check() { local status=$?; [ $status -eq 0 ] || { echo "FAILED ($status): $1"; failed=1; }; return 0; }

step "primitives against the shim, every small workload against the reference"
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$device} "$build/bin/rgen_test_device"
status=$?
[ $status -ne 77 ] || exit 77
(exit $status); check "rgen_test_device"

step "a profile of the device"
if [ -z "$profile" ]; then
  "$rgen" profile new --device "$device" -o "$work/device.json"; check "profile new"
  profile=$work/device.json
fi
"$rgen" profile show "$profile" || exit 1
name=$("$rgen" profile show "$profile" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["name"])')
stem=$results/${name}_$(date +%F)
"$rgen" profile show "$profile" --json > "$stem.profile.json"

step "every small workload on that profile, and the second and third plans"
"$rgen" bench --hw "$profile" --device "$device" --seconds 0.002 --top-k 3 --json "$root/tests/data/small_workloads.json" > "$work/small.json"
check "small workloads (rgen bench names what differs)"

step "compute-sanitizer"
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck synccheck; do
    compute-sanitizer --tool $tool --error-exitcode 9 "$rgen" run --hw "$profile" --device "$device" --seconds 0.001 \
      "$root/tests/data/small_workloads.json" > "$work/$tool.log" 2>&1
    status=$?
    tail -n 1 "$work/$tool.log"
    [ $status -eq 0 ] || grep -m 5 -A 6 '=========' "$work/$tool.log"
    (exit $status); check "compute-sanitizer $tool"
  done
else
  echo "skipped: compute-sanitizer is not installed (it comes with the CUDA toolkit)"
fi

step "times, and peers"
"$rgen" bench --hw "$profile" --device "$device" --seconds 0.1 --json "$workloads" > "$work/bench.json"; check "workloads"
python3 "$root/bench/gpu/peers.py" --bench "$work/bench.json" --workloads "$workloads" --device "$device" --output "$stem.json"
check "peers.py"

echo
echo "results: $stem.json, $stem.profile.json"
exit $failed

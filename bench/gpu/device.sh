#!/usr/bin/env bash
# Everything that needs a GPU, in the order in which a failure would explain the next one (docs/cuda.md, "On a device"):
# primitives, small workloads, a profile of the device, the sanitizer, times beside cuBLAS and cuDNN, prediction against measurement.
#
#   bench/gpu/device.sh prepare [-b BUILD] [-p PROFILE] [-n PLANS] [-w FOLDER]      where a compiler is: minutes, no GPU
#   bench/gpu/device.sh measure [-b BUILD] [-d DEVICE] [-w FOLDER] [-o RESULTS]     where the GPU is: about five minutes
#
# BUILD: a built tree (default: build/release). PROFILE: what is planned for (default: h100). PLANS: of each workload (default: 4). FOLDER: the
# compiled plans (default: build/device). RESULTS: default bench/results. What is not installed is skipped and said.
# The exit status is 0 if all that could be done passed; 77 without a device.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -gt 0 ] || { sed -n '2,11p' "$0"; exit 2; }
action=$1; shift
build=$root/build/release profile=h100 plans=4 device=0 folder=$root/build/device results=$root/bench/results
while getopts b:p:n:d:w:o:h option; do
  case $option in
    b) build=$(cd "$OPTARG" && pwd) ;;
    p) profile=$OPTARG ;;
    n) plans=$OPTARG ;;
    d) device=$OPTARG ;;
    w) folder=$OPTARG ;;
    o) results=$OPTARG ;;
    *) sed -n '2,11p' "$0"; exit 2 ;;
  esac
done
lists=(workloads products skinny fused layers roller)

prepare() {
  mkdir -p "$folder"
  cp "$root/tests/data/workloads.json" "$folder/workloads.json"
  cp "$root/bench/roller/workloads.json" "$folder/roller.json"
  for list in products skinny fused layers; do python3 "$root/bench/gpu/shapes.py" $list > "$folder/$list.json" || exit 1; done
  for list in "${lists[@]}"; do
    "$build/bin/rgen-regret" --hw "$profile" "$folder/$list.json" --plans "$plans" --first 3 --within 2 --prepare "$folder/$list" || exit 1
  done
}

failed=0
step() { echo; echo "== $1"; }
check() { local status=$?; [ $status -eq 0 ] || { echo "FAILED ($status): $1"; failed=1; }; return 0; }

measure() {
  mkdir -p "$results"
  export RGEN_CACHE_DIR=${RGEN_CACHE_DIR:-$folder/cache}
  export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$device}
  step "primitives against the shim, every small workload against the reference"
  "$build/bin/rgen_test_device"
  local status=$?
  [ $status -ne 77 ] || exit 77
  (exit $status); check "rgen_test_device"

  step "a profile of the device"
  "$build/bin/rgen" profile new --device 0 -o "$folder/device.profile.json"; check "profile new"
  "$build/bin/rgen" profile show "$folder/device.profile.json" || exit 1
  local name
  name=$("$build/bin/rgen" profile show "$folder/device.profile.json" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["name"])')
  local stem=$results/${name}_$(date +%F)
  cp "$folder/device.profile.json" "$stem.profile.json"

  for list in "${lists[@]}"; do
    step "$list: times, and peers"
    rm -f "$stem.$list.json"
    local try
    for try in 1 2 3 4; do  # a kernel that hangs or faults takes the process along
      python3 "$root/bench/gpu/peers.py" "$folder/$list" --workloads "$folder/$list.json" --output "$stem.$list.json" --resume && break
    done
    check "$list"
  done

  step "compute-sanitizer"
  if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck synccheck; do
      compute-sanitizer --tool $tool --error-exitcode 9 "$build/bin/rgen_test_device" -tc="every small*" > "$folder/$tool.log" 2>&1
      status=$?
      tail -n 1 "$folder/$tool.log"
      [ $status -eq 0 ] || grep -m 5 -A 6 '=========' "$folder/$tool.log"
      (exit $status); check "compute-sanitizer $tool"
    done
  else
    echo "skipped: compute-sanitizer is not installed (it comes with the CUDA toolkit)"
  fi
  echo
  python3 "$root/bench/gpu/report.py" "$stem".{workloads,products,skinny,fused,layers,roller}.json
  exit $failed
}

case $action in
  prepare | measure) $action ;;
  *) sed -n '2,11p' "$0"; exit 2 ;;
esac

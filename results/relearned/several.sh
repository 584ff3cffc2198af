#!/usr/bin/env bash
# Learn one replay again with several variants, four at a time, on one GPU (best under MPS).
#   bash results/relearned/several.sh DATA UPDATES OUT.jsonl < variants.txt
# A line of the input has a seed and a variant, such as "0 lead_gradient=True"; lines may still be added while
# others run, as by `tail -n +1 -f variants.txt |`. The output of each goes to OUT.jsonl.logs.
set -euo pipefail
data=${1:?DATA} updates=${2:?UPDATES} out=${3:?OUT} here=$(dirname "$0")
mkdir -p "$out.logs"
xargs -P "${PARALLEL:-4}" -L 1 bash -c \
  'python3 "$0/relearn.py" learn "$1" --updates "$2" --out "$3" --seed "$4" --variant "$5" > "$3.logs/$4-$5.log" 2>&1' \
  "$here" "$data" "$updates" "$out"

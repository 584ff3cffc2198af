#!/usr/bin/env bash
# Train in random problems with each kind of policy targets, two runs at a time; done ones are kept.
#   bash results/lead-policy/several.sh FOLDER < runs.txt
# A line of the input has a variant, a problem, a seed, a law, and settings if any, such as
#   rolled sparse_26 0 constant:7 --learner.unroll 2
# Variants: real and rolled, see --learner.lead-policy; first and heavy, see mdps.py; none: no leads, as in the paper.
set -euo pipefail
folder=$(realpath -m "${1:?FOLDER}")
mkdir -p "$folder"
export JAX_COMPILATION_CACHE_DIR="$folder/cache" PYTHONPATH="$(cd "$(dirname "$0")" && pwd)"
xargs -P "${PARALLEL:-2}" -L 1 bash -c '
  settings="${*:5}" run="$0/$1-$2-$3-$4"
  run+="${settings// /_}"
  case $1 in
    none) settings+=" --learner.lead-share 0" ;;
    real) ;;
    rolled) settings+=" --learner.lead-policy rolled" ;;
    *) settings+=" --learner.lead-policy rolled"; export LEAD_POLICY=$1 ;;
  esac
  [ -e "$run/result.json" ] || delayzero train cartpole --env "mdps:$2" --seed "$3" --delay "$4" \
    --discount 0.95 --learner.td-steps 5 --learner.td-age None --interactions 5000 \
    --final-episodes 512 $settings --folder "$run" > "$run.log" 2>&1' "$folder"

#!/bin/bash
# Runs the configMap's script for a mode, which is the argument: apply.sh, apply_check.sh, config.sh, ...
set -eu
script="$SKYHOOK_DIR/configmaps/$1.sh"
if [ ! -f "$script" ]; then
  echo "no $1.sh in the configMap, nothing to run"
  exit 0
fi
. "$script"

#!/bin/bash
# Runs the script of a mode from the NodeWright's configMap: keys apply.sh, apply_check.sh, config.sh and so on. A mode
# without a key does nothing.
set -eu
script="$SKYHOOK_DIR/configmaps/$1.sh"
if [ ! -f "$script" ]; then
  echo "the configMap has no key $1.sh: nothing to do"
  exit 0
fi
. "$script"

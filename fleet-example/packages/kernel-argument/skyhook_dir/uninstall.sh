#!/bin/sh
set -eu
. "$STEP_ROOT/lib.sh"
if [ -e "$target" ]; then
  rm -f "$target"
  refresh
fi

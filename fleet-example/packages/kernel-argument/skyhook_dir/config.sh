#!/bin/sh
# Adds kernel arguments for the next boot. Key arguments: one a line. Give the package a reboot interrupt.
set -eu
. "$STEP_ROOT/lib.sh"
mkdir -p "$(dirname "$target")"
if ! wanted | cmp -s - "$target"; then
  wanted >"$target.new"
  mv "$target.new" "$target"
  refresh
fi

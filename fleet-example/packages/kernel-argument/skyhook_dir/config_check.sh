#!/bin/sh
set -eu
. "$STEP_ROOT/lib.sh"
wanted | cmp - "$target"

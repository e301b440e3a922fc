#!/bin/sh
set -eu
. "$STEP_ROOT/lib.sh"
test ! -e "$target"

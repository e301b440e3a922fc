#!/bin/sh
# Proves that the running kernel was started with the arguments.
set -eu
. "$STEP_ROOT/lib.sh"
bad=0
for argument in $(arguments); do
  case " $(cat /proc/cmdline) " in
  *" $argument "*) ;;
  *)
    echo "the running kernel was started without $argument" >&2
    bad=1
    ;;
  esac
done
exit $bad

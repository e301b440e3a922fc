#!/bin/sh
# Proves that the running kernel and the running services have what was configured.
set -eu
. "$STEP_ROOT/lib.sh"
bad=0
complain() { echo "$*" >&2 && bad=1; }
if has grub.conf; then
  for argument in $(arguments); do
    case " $(cat /proc/cmdline) " in
    *" $argument "*) ;;
    *) complain "the running kernel was started without $argument" ;;
    esac
  done
fi
for service in $(services); do
  systemctl show -p DropInPaths --value "$service" | grep -qF "$(dropin "$service")" || complain "$service runs without its drop-in"
done
exit $bad

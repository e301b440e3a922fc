#!/bin/sh
# The running kernel keeps what it was started with until the next boot.
set -eu
. "$STEP_ROOT/lib.sh"
rm -f "$grub" "$sysctls" "$limits"
update-grub
for service in $(services); do
  rm -f "$(dropin "$service")"
  rmdir "$(dirname "$(dropin "$service")")" 2>/dev/null || true
done
systemctl daemon-reload

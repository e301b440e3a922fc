#!/bin/sh
# Keys: grub.conf (kernel arguments, one a line; they need a reboot), sysctl.conf, ulimit.conf (lines of item and value), and
# service_<name>.conf, a drop-in of that service.
set -eu
. "$STEP_ROOT/lib.sh"
if has grub.conf; then
  grub_wanted | put "$grub"
  update-grub
fi
if has sysctl.conf; then
  put "$sysctls" <"$keys/sysctl.conf"
  sysctl -q -p "$sysctls"
fi
if has ulimit.conf; then
  limits_wanted | put "$limits"
fi
for service in $(services); do
  put "$(dropin "$service")" <"$keys/service_$service.conf"
done
systemctl daemon-reload

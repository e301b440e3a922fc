#!/bin/sh
set -eu
. "$STEP_ROOT/lib.sh"
if has grub.conf; then grub_wanted | cmp - "$grub"; fi
if has sysctl.conf; then cmp "$keys/sysctl.conf" "$sysctls"; fi
if has ulimit.conf; then limits_wanted | cmp - "$limits"; fi
for service in $(services); do
  cmp "$keys/service_$service.conf" "$(dropin "$service")"
done

#!/bin/sh
set -eu
. "$STEP_ROOT/lib.sh"
test ! -e "$grub"
test ! -e "$sysctls"
test ! -e "$limits"
for service in $(services); do
  test ! -e "$(dropin "$service")"
done

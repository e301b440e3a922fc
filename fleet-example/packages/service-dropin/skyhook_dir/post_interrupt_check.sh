#!/bin/sh
# Proves that the service is up with the drop-in: one that was changed after the start of the service is not in effect.
set -eu
service=$(cat "$SKYHOOK_DIR/configmaps/service")
target="/etc/systemd/system/$service.service.d/50-fleetwright.conf"
if [ ! -d /run/systemd/system ]; then
  echo "no systemd runs here: nothing to look at"
  exit 0
fi
systemctl is-active --quiet "$service"
test "$(systemctl show -p NeedDaemonReload --value "$service")" = no
systemctl show -p DropInPaths --value "$service" | grep -qF "$target"

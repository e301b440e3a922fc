#!/bin/sh
set -eu
service=$(cat "$SKYHOOK_DIR/configmaps/service")
target="/etc/systemd/system/$service.service.d/50-fleetwright.conf"
rm -f "$target"
rmdir --ignore-fail-on-non-empty "$(dirname "$target")" 2>/dev/null || true
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

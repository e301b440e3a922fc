#!/bin/sh
set -eu
service=$(cat "$SKYHOOK_DIR/configmaps/service")
target="/etc/systemd/system/$service.service.d/50-fleetwright.conf"
cmp "$SKYHOOK_DIR/configmaps/dropin.conf" "$target"

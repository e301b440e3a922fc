#!/bin/sh
# Puts a drop-in of a systemd service in place. Keys: service (its name, without .service) and dropin.conf. The service
# takes it over when it is restarted: give the package an interrupt of type service.
set -eu
service=$(cat "$SKYHOOK_DIR/configmaps/service")
target="/etc/systemd/system/$service.service.d/50-fleetwright.conf"
mkdir -p "$(dirname "$target")"
cp "$SKYHOOK_DIR/configmaps/dropin.conf" "$target.new"
mv "$target.new" "$target"
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi

#!/bin/sh
# Puts kernel settings in place, now and for later boots. Key sysctl.conf: lines `name = value`.
set -eu
target=/etc/sysctl.d/90-fleetwright.conf
mkdir -p /etc/sysctl.d
cp "$SKYHOOK_DIR/configmaps/sysctl.conf" "$target.new"
mv "$target.new" "$target"
if [ -w /proc/sys/kernel ]; then
  sysctl -q -p "$target"
else
  echo "the kernel's settings are read-only here: they take effect with the next boot"
fi

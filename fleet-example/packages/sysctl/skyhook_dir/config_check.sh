#!/bin/sh
# Proves that the kernel has the values that were asked for, not only that the file is there.
set -eu
target=/etc/sysctl.d/90-fleetwright.conf
cmp "$SKYHOOK_DIR/configmaps/sysctl.conf" "$target"
[ -w /proc/sys/kernel ] || exit 0
bad=0
while IFS='=' read -r name value; do
  name=$(echo "$name" | tr -d '[:space:]')
  case "$name" in '' | '#'* | ';'*) continue ;; esac
  want=$(echo "$value" | xargs)
  have=$(sysctl -n "$name" | xargs)
  if [ "$want" != "$have" ]; then
    echo "$name is $have, not $want" >&2
    bad=1
  fi
done <"$target"
exit $bad

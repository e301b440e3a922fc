#!/bin/sh
# Read by the steps.
target=/etc/default/grub.d/50-fleetwright.cfg

# The arguments, one a line in the key, on one line.
arguments() { grep -v '^#' "$SKYHOOK_DIR/configmaps/arguments" | xargs; }

wanted() { printf 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT %s"\n' "$(arguments)"; }

refresh() {
  if command -v update-grub >/dev/null && [ -d /boot/grub ]; then
    update-grub
  else
    echo "there is no boot loader to update here"
  fi
}

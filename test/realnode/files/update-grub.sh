#!/bin/sh
# Puts the kernel's command line for the next boot together.
set -eu
GRUB_CMDLINE_LINUX_DEFAULT=""
for file in /etc/default/grub.d/*.cfg; do
  [ ! -e "$file" ] || . "$file"
done
echo "BOOT_IMAGE=/vmlinuz $GRUB_CMDLINE_LINUX_DEFAULT" | xargs >/boot/grub/cmdline

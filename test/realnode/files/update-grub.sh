#!/bin/sh
# Puts the kernel's command line for the next boot together. As the real one it takes no lock: two at once are a race.
set -eu
GRUB_CMDLINE_LINUX_DEFAULT=""
for file in /etc/default/grub.d/*.cfg; do
  [ ! -e "$file" ] || . "$file"
done
echo "BOOT_IMAGE=/vmlinuz $GRUB_CMDLINE_LINUX_DEFAULT" | xargs >/boot/grub/cmdline.new
mv /boot/grub/cmdline.new /boot/grub/cmdline

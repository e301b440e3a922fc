# Read by the steps: where the keys of the configMap go on the host.
keys="$SKYHOOK_DIR/configmaps"
grub=/etc/default/grub.d/60-tuning.cfg
sysctls=/etc/sysctl.d/60-tuning.conf
limits=/etc/security/limits.d/60-tuning.conf

has() { [ -f "$keys/$1" ]; }
arguments() { grep -v '^#' "$keys/grub.conf" | xargs; }
services() { ls "$keys" | sed -n 's/^service_\(.*\)\.conf$/\1/p'; }
dropin() { echo "/etc/systemd/system/$1.service.d/60-tuning.conf"; }
grub_wanted() { printf 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT %s"\n' "$(arguments)"; }
limits_wanted() { while read -r item value; do printf '* - %s %s\n' "$item" "$value"; done <"$keys/ulimit.conf"; }

# put replaces a file by standard input, in one step.
put() {
  mkdir -p "$(dirname "$1")"
  cat >"$1.new"
  mv "$1.new" "$1"
}

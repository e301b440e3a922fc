#!/bin/sh
# Plays systemd for one machine: keeps the states of units below /run/units and logs every call that changes something. A unit
# is known by its file in /etc/systemd/system. It takes its drop-ins over when it is started, as with the real one.
log() { echo "$*" >>/var/log/systemctl.log; }
unit() { case "$1" in *.service) echo "${1%.service}" ;; *) echo "$1" ;; esac; }
dropins() { find "/etc/systemd/system/$1.service.d" -name '*.conf' 2>/dev/null | sort | xargs; }
digest() { cat "/etc/systemd/system/$1.service" $(dropins "$1") 2>/dev/null | cksum; }
known() {
  [ -e "/etc/systemd/system/$1.service" ] || {
    echo "Unit $1.service not found." >&2
    exit 5
  }
}
start() {
  known "$1"
  mkdir -p "/run/units/$1"
  dropins "$1" >"/run/units/$1/dropins"
  echo active >"/run/units/$1/state"
}
verb=$1
shift
case "$verb" in
boot)
  for file in /etc/systemd/system/*.service; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .service)
    start "$name"
    digest "$name" >"/run/units/$name/loaded"
  done
  ;;
daemon-reload)
  log daemon-reload
  for dir in /run/units/*/; do
    [ -e "$dir" ] || continue
    name=$(basename "$dir")
    digest "$name" >"$dir/loaded"
  done
  ;;
restart)
  log restart "$@"
  for one in "$@"; do start "$(unit "$one")"; done
  ;;
is-active)
  [ "$1" = --quiet ] && shift
  [ "$(cat "/run/units/$(unit "$1")/state" 2>/dev/null)" = active ] || exit 3
  ;;
show) # show -p PROPERTY --value UNIT, or show --property=STATES UNIT
  if [ "${1#--property=ActiveState,}" != "$1" ]; then
    state=$(cat "/run/units/$(unit "$2")/state" 2>/dev/null)
    [ "$state" = active ] || state=inactive
    printf '%s\n' "ActiveState=$state" Result=success Type=simple NRestarts=0
    exit 0
  fi
  name=$(unit "$4")
  case "$2" in
  DropInPaths) cat "/run/units/$name/dropins" ;;
  NeedDaemonReload) if [ "$(digest "$name")" = "$(cat "/run/units/$name/loaded")" ]; then echo no; else echo yes; fi ;;
  *)
    echo "systemctl: the property $2 is not played here" >&2
    exit 1
    ;;
  esac
  ;;
*)
  echo "systemctl: the verb $verb is not played here" >&2
  exit 1
  ;;
esac

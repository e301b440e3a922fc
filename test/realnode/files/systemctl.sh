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
property() {
  state=$(cat "/run/units/$1/state" 2>/dev/null)
  case "$2" in
  ActiveState) echo "${state:-inactive}" ;;
  SubState) [ "$state" = active ] && echo running || echo dead ;;
  Result) echo success ;;
  Type) echo simple ;;
  NRestarts) echo 0 ;;
  DropInPaths) cat "/run/units/$1/dropins" ;;
  NeedDaemonReload) [ "$(digest "$1")" = "$(cat "/run/units/$1/loaded")" ] && echo no || echo yes ;;
  *)
    echo "systemctl: the property $2 is not played here" >&2
    return 1
    ;;
  esac
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
show)
  names="" plain=no
  while [ $# -gt 1 ]; do
    case "$1" in
    -p) names=$2 && shift ;;
    --property=*) names=${1#--property=} ;;
    --value) plain=yes ;;
    esac
    shift
  done
  for property in $(echo "$names" | tr , ' '); do
    value=$(property "$(unit "$1")" "$property") || exit 1
    if [ "$plain" = yes ]; then echo "$value"; else echo "$property=$value"; fi
  done
  ;;
*)
  echo "systemctl: the verb $verb is not played here" >&2
  exit 1
  ;;
esac

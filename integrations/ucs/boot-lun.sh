#!/bin/bash
# A boot LUN for a blade, as four requests to the array: what a workflow of Cisco UCS Director or Intersight does, one task each.
#   boot-lun.sh create PROFILE IQN SIZE             an empty volume of SIZE bytes
#   boot-lun.sh create PROFILE IQN --from SOURCE    a clone of a golden image: a volume or snapshot
#   boot-lun.sh delete PROFILE IQN                  disconnects, recycles the volume, deletes the host
# PROFILE is the server profile's name, IQN the initiator of its iSCSI vNICs. Environment: ASHLAR_ARRAY, the URL of the API;
# ASHLAR_TOKEN, an API token of an operator; ASHLAR_CERTIFICATE, the array's tls.pem.
# Each verb can be repeated after any failure: what is done already stays. `create` prints what the boot policy needs.
set -euo pipefail

die() { echo "boot-lun: $*" >&2; exit 1; }

# ask METHOD PATH [BODY]: sends a request, prints the response's object, and leaves the kind of a refusal in $KIND.
ask() {
  local method=$1 path=$2 body=${3:-} answer status
  local words=(--silent --show-error --max-time 30 --retry 2 --retry-connrefused --request "$method"
    --header "Authorization: Bearer $ASHLAR_TOKEN" --write-out '\n%{http_code}')
  [ -z "${ASHLAR_CERTIFICATE:-}" ] || words+=(--cacert "$ASHLAR_CERTIFICATE")
  # The same key for every attempt: the array carries it out once.
  [ "$method" = GET ] || words+=(--header "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)")
  [ -z "$body" ] || words+=(--header 'Content-Type: application/json' --data-binary "$body")
  answer=$(curl "${words[@]}" "${ASHLAR_ARRAY%/}/api/v1$path") || die "the array at $ASHLAR_ARRAY can't be reached"
  status=${answer##*$'\n'}; answer=${answer%$'\n'*}; KIND=
  case $status in 2??) ANSWER=$answer; return 0 ;; esac
  KIND=$(jq -r .kind <<<"$answer" 2>/dev/null) || die "HTTP status $status: is ASHLAR_ARRAY the address of the array's API?"
  ANSWER=$(jq -r .detail <<<"$answer")
  return 1
}

must() { ask "$@" || die "$1 $2: $ANSWER"; }
gone() { ask "$@" || [ "$KIND" = not_found ] || die "$1 $2: $ANSWER"; }

# own PATH: fails if something is there that another profile, or no workflow, has made.
own() {
  ask GET "$1" || { [ "$KIND" = not_found ] && return 1; die "GET $1: $ANSWER"; }
  [ "$(jq -r '.labels["ucs/profile"] // ""' <<<"$ANSWER")" = "$PROFILE" ] ||
    die "${1#/} was not made for server profile $PROFILE: rename it, or choose another name for the profile"
}

create() {
  local volume host attached
  # 1. The volume.
  if ! own "/volumes/boot-$PROFILE"; then
    if [ "${1:-}" = --from ]; then
      volume=$(jq -n --arg name "boot-$PROFILE" --arg source "${2:?}" --arg profile "$PROFILE" \
        '{name: $name, source: $source, labels: {"ucs/profile": $profile}}')
    else
      volume=$(jq -n --arg name "boot-$PROFILE" --arg size "${1:?}" --arg profile "$PROFILE" \
        '{name: $name, size: ($size | tonumber), labels: {"ucs/profile": $profile}}')
    fi
    must POST /volumes "$volume"
  fi
  # 2. The blade as a host. 3. The connection: firmware boots from LUN 0.
  if ! own "/hosts/$PROFILE"; then
    host=$(jq -n --arg name "$PROFILE" --arg iqn "$IQN" '{name: $name, initiators: [$iqn], labels: {"ucs/profile": $name}}')
    must POST /hosts "$host"
  fi
  must POST /connections "$(jq -n --arg volume "boot-$PROFILE" --arg host "$PROFILE" '{volume: $volume, host: $host, lun: 0}')"
  attached=$ANSWER
  # 4. What goes into the profile: static targets of the iSCSI boot policy.
  jq '{profile: .host, volume, naa, lun, chap, targets: [.target_iqn as $iqn | .portals[] | {iqn: $iqn, address, port}]}' <<<"$attached"
}

delete() {
  gone DELETE "/connections/boot-$PROFILE/$PROFILE"
  if own "/volumes/boot-$PROFILE"; then gone DELETE "/volumes/boot-$PROFILE"; fi
  if own "/hosts/$PROFILE"; then gone DELETE "/hosts/$PROFILE"; fi
}

case "$# ${1:-} ${4:-}" in
  '3 delete ' | '4 create '[!-]* | '5 create --from') ;;
  *) sed -n '2,8p' "$0"; exit 2 ;;
esac
: "${ASHLAR_ARRAY:?is the address of the array, such as https://10.0.0.1:8080}" "${ASHLAR_TOKEN:?is an API token}"
VERB=$1 PROFILE=$2 IQN=$3; shift 3
# The name stands in addresses: an empty one, or one with a slash, would be another object's, or all objects'.
[[ $PROFILE =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || die "a server profile's name has letters, digits, '.', '_' and '-', not \"$PROFILE\""
"$VERB" "$@"

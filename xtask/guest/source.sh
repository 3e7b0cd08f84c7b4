#!/bin/bash
# source.sh SUITE PACKAGE FOLDER - unpacks the upstream source of a Debian package into FOLDER, once.
set -euo pipefail
suite=$1 package=$2 folder=$3
[ -d "$folder" ] && exit
work=$(mktemp -d "$folder.XXXXXX"); trap 'rm -rf "$work"' EXIT
# The mirror that this machine itself uses, with lists of our own: its own need not have sources.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb-src $mirror $suite main" >"$work/sources.list"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/tree"
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source --download-only "$package")
tar -C "$work/tree" --strip-components=1 -xf "$work"/*.orig.tar.*
mv "$work/tree" "$folder"

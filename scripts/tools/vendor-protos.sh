#!/bin/sh
# Refreshes the third-party protos in proto/third_party from the Buf Schema Registry and the gRPC
# repository. It needs network access; builds and tests never run it.
set -eu
cd "$(dirname "$0")/../.."
target=proto/third_party
buf() { node_modules/.bin/buf "$@"; }

buf export buf.build/bufbuild/protovalidate --path buf/validate --exclude-imports --output "$target"
buf export buf.build/googleapis/googleapis --exclude-imports --output "$target" \
  --path google/api/annotations.proto --path google/api/http.proto
buf export buf.build/grpc/grpc --exclude-imports --output "$target" \
  --path grpc/reflection/v1 --path grpc/reflection/v1alpha
# The health protocol lies at health/v1 here, and at grpc/health/v1 in the registry.
buf export buf.build/grpc/grpc --exclude-imports --path grpc/health/v1 --output "$target/.health"
mv "$target/.health/grpc/health/v1/health.proto" "$target/health/v1/health.proto"
rm -r "$target/.health"

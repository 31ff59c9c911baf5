#!/bin/sh
# Makes the code of the .proto files again. Debian's protobuf-compiler has protoc. The two plugins are
# google.golang.org/protobuf/cmd/protoc-gen-go v1.36.12 and google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.0.
set -eu
cd "$(dirname "$0")/../../.."
protoc --go_out=. --go_opt=module=berth --go-grpc_out=. --go-grpc_opt=module=berth client/drivers/protocol/*/*.proto

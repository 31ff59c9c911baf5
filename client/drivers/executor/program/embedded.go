//go:build embedexecutor

package program

import _ "embed"

// embedded is the program that `make build` has built before.
//
//go:embed berth-executor
var embedded []byte

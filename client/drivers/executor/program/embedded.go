//go:build embedexecutor

package program

import _ "embed"

// embedded is the program that `make build` has built and packed before.
//
//go:embed berth-executor.gz
var embedded []byte

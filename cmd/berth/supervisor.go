//go:build embedexecutor

package main

import (
	_ "embed"

	"berth/client/drivers/manager"
)

// packedSupervisor is the program that `make build` has built and packed before. It is here, and not where it
// is used, so that the build tag changes this package alone: all others compile once for the binary and the
// tests.
//
//go:embed berth-executor.gz
var packedSupervisor []byte

func init() { manager.EmbedProgram(packedSupervisor) }

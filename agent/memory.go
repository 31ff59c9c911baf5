package agent

import (
	"os"
	"runtime/debug"
)

// serverGOGC lets the heap of a server grow threefold, and not twofold, before a collection. Rows live long,
// the memory of a request does not, and each collection scans all rows. The larger heap halves the cost of
// garbage collection.
const serverGOGC = 200

// setGOGC sets GOGC of a server unless the environment has GOGC or GOMEMLIMIT.
func setGOGC(c *Config) {
	if c.Server.Enabled &&
		os.Getenv("GOGC") == "" &&
		os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(serverGOGC)
	}
}

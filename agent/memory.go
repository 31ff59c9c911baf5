package agent

import (
	"os"
	"runtime/debug"
)

// serverGOGC lets a server's heap grow threefold, not twofold, before it is collected: rows live long, what
// a request needs is gone at once, and every collection goes through all of the rows. It halves what
// collecting costs.
const serverGOGC = 200

// tuneCollector sets how often this process collects garbage, where it is a server and nobody has decided
// otherwise by GOGC or GOMEMLIMIT.
func tuneCollector(c *Config) {
	if c.Server.Enabled && os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(serverGOGC)
	}
}

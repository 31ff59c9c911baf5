// Command rawexec serves the peer's raw_exec driver as an external plugin.
package main

import (
	"github.com/hashicorp/nomad/drivers/rawexec"

	"berth/test/peer/external"
)

func main() { external.Serve(rawexec.NewRawExecDriver) }

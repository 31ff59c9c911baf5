// Command exec serves the peer's exec driver as an external plugin.
package main

import (
	"github.com/hashicorp/nomad/drivers/exec"

	"berth/test/peer/external"
)

func main() { external.Serve(exec.NewExecDriver) }

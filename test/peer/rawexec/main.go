// Command rawexec serves the peer's raw_exec driver as an external plugin.
package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/drivers/rawexec"
	_ "github.com/hashicorp/nomad/drivers/shared/executor" // runs as its own helper process
	"github.com/hashicorp/nomad/plugins"
)

func main() {
	plugins.Serve(func(logger hclog.Logger) any {
		return rawexec.NewRawExecDriver(context.Background(), logger)
	})
}

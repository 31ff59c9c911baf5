// Package commands lists the commands that run a process of berth itself, where the others call one: the
// agent, and the CSI drivers that come with berth. Each runs until its context ends.
package commands

import (
	"berth/agent"
	"berth/cli"
)

// All is the list, for cli.Run and cli.Reference.
func All() []cli.Command {
	return []cli.Command{
		agent.Command(),
		{Name: "plugin", Sub: []cli.Command{hostpathCommand()}}, // beside those of cli that look into plugins
	}
}

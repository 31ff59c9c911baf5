// Package commands lists the commands that run a process of berth, the agent and the bundled CSI drivers, and
// commands that read an agent's configuration. A process runs until its context ends. The other commands call
// an agent.
package commands

import (
	"berth/cli/command"
)

// All returns the commands for cli.Run and cli.Tree.
func All() []command.Command {
	// Package cli has the commands that call an agent, and does not import the server.
	return []command.Command{
		agentCommand(),
		configCommand(),
		doctorCommand(),
		{
			Name: "operator", // joins the commands of package cli, as the next
			Sub: []command.Command{
				{
					Name: "snapshot",
					Sub:  []command.Command{snapshotStateCommand()},
				},
				{
					Name: "raft",
					Sub:  []command.Command{raftInfoCommand(), raftLogsCommand()},
				},
			},
		},
		{
			Name: "plugin",
			Sub:  []command.Command{hostpathCommand()},
		},
	}
}

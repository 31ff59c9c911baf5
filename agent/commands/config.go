package commands

import (
	"context"

	"berth/agent"
	"berth/cli/command"
)

const helpConfigValidate = `
Reads the configuration of an agent from files and directories, as "berth
agent -config" does, and checks all of it. It starts nothing and needs no
agent, so it can check a change before the agents reload or start with it. A
setting of a later file replaces that of an earlier one.

The files are checked together: one that relies on another or on options of
"berth agent" is not valid alone.

The exit code is 2 if the configuration is invalid. The message names each
fault with its file and line.`

// configCommand returns "berth config", which reads files of an agent.
func configCommand() command.Command {
	return command.Command{
		Name:     "config",
		Group:    command.GroupSelf,
		Synopsis: "Check the configuration of an agent",
		Sub: []command.Command{{
			Name:     "validate",
			Args:     "<path>...",
			Synopsis: "Check the configuration of an agent without starting it",
			Help:     helpConfigValidate,
			Local:    true,
			Run:      validateConfig,
			Examples: "berth config validate /etc/berth\n" +
				"berth config validate agent.hcl tls.hcl",
		}},
	}
}

func validateConfig(_ context.Context, c *command.Call) error {
	config := agent.DefaultConfig()
	err := config.LoadFiles(c.Args)
	if err == nil {
		err = config.Finish()
	}
	if err != nil {
		return err
	}

	c.Printf("The configuration is valid\n")
	return nil
}

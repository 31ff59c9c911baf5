package commands

import (
	"berth/agent"
	"berth/cli/command"
	"berth/structs"
)

// serverOnly is the option of the unit berth-server.service, whose user could neither mount volumes nor start
// tasks.
const serverOnly = "server-only"

var serverOnlyFlag = command.Flag{
	Name:  serverOnly,
	Kind:  command.Bool,
	Usage: "Do not start if the configuration enables the client: for an agent that does not run as root",
}

// checkServerOnly returns an error if the agent is to be only a server, and would be a node, too. The start
// reports faults of the configuration.
func checkServerOnly(call *command.Call) error {
	if !call.Bool(serverOnly) {
		return nil
	}

	config := agent.DefaultConfig()
	err := config.LoadFiles(call.Strings("config"))
	if err != nil {
		return nil //nolint:nilerr // the start reads the files again, and has the error
	}

	isNode := config.Client.Enabled || call.Bool("dev")
	if call.Given("client") {
		isNode = call.Bool("client")
	}
	if !isNode {
		return nil
	}
	return structs.Invalidf("the configuration enables the client, and with -" + serverOnly + " the agent is " +
		"no node: a node mounts volumes and starts tasks as root. Remove the block client from the " +
		"configuration, or take the unit berth.service in place of berth-server.service: " +
		"systemctl disable berth-server; systemctl enable --now berth")
}

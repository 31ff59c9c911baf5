package fencing

import "time"

// The scopes of a proof.
const (
	ScopePower   = "power"   // the machine is off: it writes to nothing
	ScopeStorage = "storage" // the machine is cut off from the volumes that the device names
)

// Device is one way to fence nodes. A server's configuration has it as a block `fencing "NAME"`.
type Device struct {
	Name  string `hcl:"name,label"`
	Agent string `hcl:"agent"` // the program: a name that is looked up, or an absolute path
	// Options are given to the agent, besides the action and the plug.
	Options map[string]string `hcl:"options"`
	// SecretFiles has options whose values are the contents of files. No output shows their values.
	SecretFiles map[string]string `hcl:"secret_files"`
	// Match has the attributes and meta of the nodes that the device fences, by their names in constraints.
	// Without it the device fences every node.
	Match map[string]string `hcl:"match"`
	// Plug is the node's name at the agent. It may refer to the node as constraints do: "${meta.plug}".
	Plug string `hcl:"plug"`
	// Scope is ScopePower or ScopeStorage.
	Scope string `hcl:"scope"`
	// Plugins and Volumes are all that a proof of ScopeStorage is about: IDs of CSI plugins, and of volumes as
	// NAMESPACE/ID.
	Plugins []string      `hcl:"plugins"`
	Volumes []string      `hcl:"volumes"`
	Timeout time.Duration `hcl:"timeout"` // of one action
}

// Result is the end of a run of an agent.
type Result struct {
	Action   string // the last action: off, status or monitor
	ExitCode int    // of that action; -1 if the agent did not start or did not end by itself
	Output   string // the last 4 KiB of what the agent wrote, without lines that hold a secret
	// Proved: the node is off, or cut off from the volumes of the device.
	Proved bool
	// Reason says in a sentence why there is no proof, "" if there is one.
	Reason string
}

package fsm

// CommandInfo describes a command for the reference.
type CommandInfo struct {
	ID   uint8
	Name string
}

// List describes every command, in the order of their ids.
func List() []CommandInfo {
	var out []CommandInfo
	for _, c := range commands {
		out = append(out, CommandInfo{c.id(), c.name()})
	}
	return out
}

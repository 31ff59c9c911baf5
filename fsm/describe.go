package fsm

// CommandInfo describes a command for the reference.
type CommandInfo struct {
	ID   uint8
	Name string
}

// NameOf returns the name of the command of a log entry, for messages.
func NameOf(entry []byte) string {
	for _, c := range commands {
		if len(entry) > 0 && c.id() == entry[0] {
			return c.name()
		}
	}
	return "an unknown command"
}

// List describes every command, in the order of their ids.
func List() []CommandInfo {
	var out []CommandInfo
	for _, c := range commands {
		out = append(out, CommandInfo{c.id(), c.name()})
	}
	return out
}

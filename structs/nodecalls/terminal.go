package nodecalls

import "berth/structs"

// TerminalSize is the size of a terminal in characters. The keys are the dialect's.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// Bounded returns the size with both numbers in the range of the kernel.
func (s TerminalSize) Bounded() TerminalSize {
	const most = 1<<16 - 1
	return TerminalSize{
		Height: min(max(s.Height, 0), most),
		Width:  min(max(s.Width, 0), most),
	}
}

// CheckExec returns why a command cannot be run in a task, or nil.
func CheckExec(command []string) error {
	size := 0
	for _, arg := range command {
		size += len(arg)
	}
	switch {
	case len(command) == 0 || command[0] == "":
		return structs.Invalidf("the command is empty; expected a program and its arguments")
	case len(command) > structs.MaxExecArgs:
		return structs.Invalidf("the command has %d arguments, more than %d", len(command),
			structs.MaxExecArgs)
	case size > structs.MaxExecBytes:
		return structs.Invalidf("the command has %d bytes, more than %d", size, structs.MaxExecBytes)
	}
	return nil
}

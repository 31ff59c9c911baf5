package nodecalls

// ExecInput is a message of the user on the websocket of a command, in the dialect's shape. One without a
// field shows that the user is there.
type ExecInput struct {
	Stdin *ExecData     `json:"stdin,omitempty"`
	Size  *TerminalSize `json:"tty_size,omitempty"`
}

// ExecOutput is a message to the user: one of the outputs, the end of the command, or nothing, which shows
// that the session is alive.
type ExecOutput struct {
	Stdout *ExecData   `json:"stdout,omitempty"`
	Stderr *ExecData   `json:"stderr,omitempty"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
}

// ExecData is a part of a stream, or its end.
type ExecData struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecResult has the shape of the dialect.
type ExecResult struct {
	ExitCode int `json:"exit_code"`
}

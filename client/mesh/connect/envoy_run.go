package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"time"

	"berth/client/hooks"
	"berth/consul"
	"berth/structs"
)

// The bounds of one run of the program consul.
const (
	runTimeout = 30 * time.Second
	endDelay   = time.Second
	maxConfig  = 1 << 20
	maxReason  = 1 << 10
)

// run returns what the program prints: a text in JSON. A failure of the program is unavailable, because
// Consul may not have the service yet. A hook.Failure says that it does not start.
func run(ctx context.Context, c *consul.Command) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	stdout := limited{max: maxConfig}
	stderr := limited{max: maxReason}
	cmd := exec.CommandContext(ctx, c.Program, c.Args...)
	cmd.Env = c.Env
	if len(cmd.Env) == 0 {
		cmd.Env = []string{"LANG=C"} // none at all would be the agent's
	}

	cmd.Dir = "/"
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	// A child of the program may keep the output open.
	cmd.WaitDelay = endDelay
	err := cmd.Start()
	if err != nil {
		return "", &hooks.Failure{
			Event: structs.TaskEventSetupFailure,
			Final: true,
			Err:   structs.Preconditionf("starting %s: %w", c.Program, err),
		}
	}

	err = cmd.Wait()
	text := stdout.text.String()
	switch {
	// The error of a program that was killed tells less.
	case ctx.Err() != nil:
		return "", structs.Unavailablef("%s has not ended: %w", c.Program, ctx.Err())
	case err != nil:
		return "", structs.Unavailablef("%s: %w: %s", c.Program, err, reason(stderr.text.String()))
	case stdout.more || !json.Valid([]byte(text)):
		return "", structs.Unavailablef("%s printed no configuration of at most %d bytes: %s",
			c.Program, maxConfig, reason(stderr.text.String()))
	}

	return text, nil
}

// reason is what a program says about its failure, on one line.
func reason(said string) string { return strings.Join(strings.Fields(said), " ") }

// limited keeps the begin of what is written to it.
type limited struct {
	text bytes.Buffer
	max  int
	more bool // it had to leave out the rest
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.max-l.text.Len())
	l.more = l.more || n < len(p)
	_, _ = l.text.Write(p[:n])
	return len(p), nil
}

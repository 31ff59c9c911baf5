package hooks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// RunCommand runs a command in a task, for at most a time. The error says why it has failed, with the
// beginning of its output. It is ctx's cause if ctx has ended.
func RunCommand(ctx context.Context, task Control, command []string, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out := &head{}
	result, err := task.Exec(within, &driver.ExecConfig{
		Command: command,
		Stdout:  out,
		Stderr:  out,
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case within.Err() != nil:
		return fmt.Errorf("it took more than %s", limit)
	case err != nil:
		return err
	case !result.Successful():
		return fmt.Errorf("%s; it wrote %q", ending(result), out.text())
	}
	return nil
}

// ending describes the end of a command that was not successful.
func ending(r *driver.ExitResult) string {
	text := fmt.Sprintf("exit code %d", r.ExitCode)
	if r.Signal != 0 {
		text += fmt.Sprintf(", signal %d", r.Signal)
	}
	if r.Err != "" {
		text += ", " + r.Err
	}
	return text
}

// head keeps the beginning of an output. Both outputs of a command may write at once.
type head struct {
	mu   sync.Mutex
	kept []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, b[:min(len(b), structs.MaxReason-len(h.kept))]...)
	return len(b), nil
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(h.kept)), "?")
}

// Package dispatchhook writes the payload of a dispatched job to the file that a task names.
package dispatchhook

import (
	"context"
	"fmt"
	"os"
	"path"

	"berth/client/hook"
	"berth/structs"
)

// payload is the hook of one task.
type payload struct {
	file string // below the local directory of the task
	data []byte
}

// New makes the hook of a task. It is nil for a task without a dispatch_payload block, and for a job without
// a payload.
func New(env *hook.AllocEnv, task *structs.Task) hook.Task {
	if task.DispatchPayload == nil || env.Alloc.Job == nil || len(env.Alloc.Job.Payload) == 0 {
		return nil
	}
	return &payload{task.DispatchPayload.File, env.Alloc.Job.Payload}
}

func (p *payload) Name() string { return "dispatch_payload" }

// Up writes the file before the first start. The task may change it later. A link in the path does not lead
// out of the directory.
func (p *payload) Up(_ context.Context, env *hook.TaskEnv) error {
	if env.Running || !env.FirstStart {
		return nil
	}
	root, err := os.OpenRoot(env.Config.Dirs.Local)
	if err != nil {
		return fmt.Errorf("opening the local directory: %w", err)
	}
	defer root.Close()
	file := path.Clean(p.file)
	err = root.MkdirAll(path.Dir(file), 0o777)
	if err == nil {
		err = root.WriteFile(file, p.data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the payload to %q: %w", structs.Cut(p.file, structs.MaxQuoted), err)
	}
	return nil
}

// Down leaves the file: it goes with the directory of the allocation.
func (p *payload) Down(context.Context) error { return nil }

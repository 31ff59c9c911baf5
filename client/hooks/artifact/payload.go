package artifact

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"berth/client/hooks"
	"berth/internal/files"
	"berth/structs"
)

// payload is the hook of one task.
type payload struct {
	file string // below the local directory of the task
	data []byte
}

// NewPayload makes the hook of a task. It is nil for a task without a dispatch_payload block, and for a job
// without a payload.
func NewPayload(env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if task.DispatchPayload == nil || env.Alloc.Job == nil || len(env.Alloc.Job.Payload) == 0 {
		return nil
	}
	return &payload{task.DispatchPayload.File, env.Alloc.Job.Payload}
}

func (p *payload) Name() string { return "dispatch_payload" }

// Up writes the file before the first start. The task may change it later. Files of an earlier allocation or
// of a start that failed may be there already. No link of them leads out of the directory of the task, and
// no device, pipe or further link to a file is written to: the payload takes its place.
func (p *payload) Up(_ context.Context, env *hooks.TaskEnv) error {
	if env.Running || !env.FirstStart {
		return nil
	}

	own, err := os.OpenRoot(env.Config.Dirs.Task)
	if err != nil {
		return fmt.Errorf("opening the directory of the task: %w", err)
	}
	defer func() { _ = own.Close() }()

	// A link of the task to a directory beside the local one, such as its secrets, leads out of this root.
	local, err := own.OpenRoot(filepath.Base(env.Config.Dirs.Local))
	if err != nil {
		return fmt.Errorf("opening the local directory: %w", err)
	}
	defer func() { _ = local.Close() }()

	err = p.write(local)
	if err != nil {
		return fmt.Errorf("writing the payload to %q: %w", structs.Cut(p.file, structs.MaxQuoted), err)
	}

	return nil
}

// write puts the payload in its place, and makes the directories above it.
func (p *payload) write(local *os.Root) error {
	file := path.Clean(p.file)
	err := local.MkdirAll(path.Dir(file), 0o777)
	if err != nil {
		return err
	}
	dir, err := local.OpenRoot(path.Dir(file))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return files.ReplaceIn(dir, path.Base(file), files.File{
		Text: string(p.data),
		Mode: 0o644,
		UID:  -1,
		GID:  -1,
	})
}

// Down leaves the file: it goes with the directory of the allocation.
func (p *payload) Down(context.Context) error { return nil }

package csihooks

import (
	"context"
	"errors"
	"sync"

	"berth/client/hooks"
	"berth/structs"
)

// Hook makes the hook of a task. It is nil for a task without commands around snapshots.
func (t *QuiescedTasks) Hook(env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	h := &quiesceHook{tasks: t, volumes: map[string]structs.SnapshotCommands{}}
	for _, m := range task.VolumeMounts {
		r := env.Group.Volumes[m.Volume] // named without placeholders: see validate.CheckSnapshotCommands
		if m.Snapshot != nil && r.NeedsClaim() {
			h.volumes[r.VolumeID(env.Alloc.Index(), env.Alloc.ID)] = *m.Snapshot
		}
	}
	if len(h.volumes) == 0 {
		return nil
	}
	h.allocID = env.Alloc.ID
	h.name = task.Name
	return h
}

// quiesceHook is the hook of one task.
type quiesceHook struct {
	tasks         *QuiescedTasks
	allocID, name string
	volumes       map[string]structs.SnapshotCommands // by the ID of the volume
	expand        func(string) string

	stop  context.CancelFunc
	waits sync.WaitGroup
}

// Name implements hooks.Task.
func (*quiesceHook) Name() string { return "snapshot_commands" }

// Up implements hooks.Task.
func (h *quiesceHook) Up(_ context.Context, env *hooks.TaskEnv) error {
	h.expand = env.Expand
	return nil
}

// Down removes the records: a task that has ended writes nothing.
func (h *quiesceHook) Down(context.Context) error {
	var errs []error
	for id := range h.volumes {
		errs = append(errs, quiesceTable.Delete(h.tasks.db, quiesceKey(h.allocID, h.name, id)))
	}
	return errors.Join(errs...)
}

// Started lets the servers run the commands of the task, and resumes a task that an earlier agent has left
// quiesced.
func (h *quiesceHook) Started(ctx context.Context, task hooks.Control) {
	ctx, h.stop = context.WithCancel(ctx)
	h.tasks.mu.Lock()
	defer h.tasks.mu.Unlock()
	for id, commands := range h.volumes {
		m := &quiescedTask{
			commands: h.expanded(commands),
			volumeID: id,
			key:      quiesceKey(h.allocID, h.name, id),
			db:       h.tasks.db,
			logger:   h.tasks.logger.With("alloc_id", h.allocID, "task", h.name),
			task:     task,
			ctx:      ctx,
			waits:    &h.waits,
		}
		h.tasks.running[m.key] = m
		m.mu.Lock() // before the first call
		h.waits.Go(m.restore)
	}
}

// expanded returns the commands with the values of their placeholders.
func (h *quiesceHook) expanded(c structs.SnapshotCommands) structs.SnapshotCommands {
	all := func(texts []string) (out []string) {
		for _, text := range texts {
			out = append(out, h.expand(text))
		}
		return out
	}
	c.Pre = all(c.Pre)
	c.Post = all(c.Post)
	return c
}

// restore resumes the task if an earlier agent, or an earlier process of the task, was quiesced. It unlocks
// the task.
func (m *quiescedTask) restore() {
	defer m.mu.Unlock()
	left, err := quiesceTable.Get(m.db, m.key)
	if err != nil {
		m.logger.Warn("failed to read whether the task is quiesced", "volume_id", m.volumeID, "error", err)
	}
	if left != nil || err != nil {
		m.finish("it was resumed after a restart of the task or of the agent")
	}
}

// Stopped implements hooks.Started. A task that is quiesced keeps its record for the next process or agent.
func (h *quiesceHook) Stopped() {
	h.tasks.mu.Lock()
	for id := range h.volumes {
		delete(h.tasks.running, quiesceKey(h.allocID, h.name, id))
	}
	h.tasks.mu.Unlock()
	h.stop()
	h.waits.Wait()
}

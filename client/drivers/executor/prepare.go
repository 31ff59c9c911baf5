package executor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"

	"berth/client/drivers/driver"
)

// starting is the agent's end of a supervisor that has not started its task yet. The supervisor ends without
// a task if spec is closed before it has the whole spec, as by the end of the agent.
type starting struct {
	spec   *os.File // takes the spec
	answer *os.File // has the answer to it
}

func (s *starting) close() { _ = errors.Join(s.spec.Close(), s.answer.Close()) }

func (s *starting) send(spec *Spec) error { return json.NewEncoder(s.spec).Encode(spec) }

// Prepare implements driver.Preparer. It starts the supervisor, which makes all of the task that does not
// depend on its program, and does not wait for it.
func (ts *Tasks) Prepare(ctx context.Context, cfg *driver.TaskConfig) error {
	base := ts.NewSpec(cfg)
	err := ts.clearTask(ctx, base.TaskID)
	if err != nil {
		return err
	}

	t := ts.heldOrNew(base.TaskID)
	t.busy.Lock()
	defer t.busy.Unlock()
	err = t.spawn(base.Network)
	if err == nil {
		err = t.starting.send(base) // it is short enough for the pipe
	}
	if err != nil {
		return errors.Join(err, ts.discard(ctx, t))
	}

	t.base = base
	// giveUp runs once, and only if keep has not stopped it: one of both has the supervisor.
	t.keep = context.AfterFunc(ctx, t.giveUp)
	ts.prepared.Store(t.id, t)
	return nil
}

// discard destroys a task that was not started. If that fails, the task is kept, so that the next Destroy of
// its ID reaps its supervisor.
func (ts *Tasks) discard(ctx context.Context, t *task) error {
	err := t.destroy(ctx)
	if err != nil {
		ts.prepared.Store(t.id, t)
	}
	return err
}

// giveUp makes the supervisor of a prepared task end. The task is still to be destroyed.
func (t *task) giveUp() {
	t.starting.close()
	t.reapChild()
}

// takePrepared returns the prepared task that a spec completes, nil if there is none.
func (ts *Tasks) takePrepared(spec *Spec) *task {
	v, ok := ts.prepared.Load(spec.TaskID)
	if !ok {
		return nil
	}
	t := v.(*task)
	// Another network or other limits need another supervisor. The caller destroys the prepared one.
	if !reflect.DeepEqual(t.base, spec.base()) || !t.keep() {
		return nil
	}
	ts.prepared.Delete(t.id)
	return t
}

// base returns the part of a spec with which a supervisor prepares the task.
func (s *Spec) base() *Spec {
	b := *s
	b.Sandbox = nil
	b.Program = nil
	if b.Cgroup != nil {
		c := *b.Cgroup
		c.Limits.Devices = nil // they depend on mounts
		b.Cgroup = &c
	}
	return &b
}

// complete reports whether the spec has a program. The whole spec follows one without.
func (s *Spec) complete() bool { return s.Sandbox != nil || s.Program != nil }

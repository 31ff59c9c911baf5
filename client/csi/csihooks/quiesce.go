package csihooks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/client/store"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// quiesceRecord is the record of a task that is quiesced, by the key of its volume.
type quiesceRecord struct {
	Time time.Time // of the first command
}

// errQuiesceEnded is the error of a command whose task, or agent, has ended.
var errQuiesceEnded = errors.New("the task has ended, or the agent stops")

var quiesceTable = store.NewTable[quiesceRecord]("quiesced")

// QuiescedTasks runs the commands of the tasks of a node around the snapshots of their volumes, so that a
// snapshot has the files of a database as the database wants them: see structs.SnapshotCommands.
//
// A task whose first command has begun is quiesced until its second command has run. That runs in each case:
// when the servers say so, when the timeout of the task has passed, and, by a record in the node's store,
// when another agent or another process of the task has started meanwhile.
type QuiescedTasks struct {
	db     *store.DB
	logger hclog.Logger

	mu      sync.Mutex
	running map[string]*quiescedTask // by the key of the volume
}

// NewQuiescedTasks returns the set without a task.
func NewQuiescedTasks(db *store.DB, logger hclog.Logger) *QuiescedTasks {
	return &QuiescedTasks{
		db:      db,
		logger:  logger,
		running: map[string]*quiescedTask{},
	}
}

func quiesceKey(allocID, task, volumeID string) string { return store.Key(allocID, task, volumeID) }

// Endpoints serve the servers.
func (t *QuiescedTasks) Endpoints() []rpc.Endpoint {
	return []rpc.Endpoint{
		rpc.Handle(nodecalls.ClientCSIQuiesce, t.quiesce),
		rpc.Handle(nodecalls.ClientCSIResume, t.resume),
	}
}

// find returns a task that runs.
func (t *QuiescedTasks) find(req *nodecalls.QuiesceRequest) (*quiescedTask, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.running[quiesceKey(req.AllocID, req.Task, req.VolumeID)]
	if m == nil {
		return nil, structs.Preconditionf("it does not run, or has no commands for snapshots of volume %s",
			req.VolumeID)
	}
	return m, nil
}

func (t *QuiescedTasks) quiesce(ctx context.Context, req *nodecalls.QuiesceRequest) (*structs.Empty, error) {
	m, err := t.find(req)
	if err == nil {
		err = m.quiesce(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &structs.Empty{}, nil
}

func (t *QuiescedTasks) resume(
	_ context.Context, req *nodecalls.QuiesceRequest,
) (*nodecalls.ResumeResponse, error) {
	m, err := t.find(req)
	if err != nil {
		return nil, err
	}
	return m.resume(), nil
}

// quiescedTask is a running task with its commands for one volume.
type quiescedTask struct {
	commands structs.SnapshotCommands
	volumeID string
	key      string
	db       *store.DB
	logger   hclog.Logger
	task     hooks.Control
	ctx      context.Context // ends with the process
	waits    *sync.WaitGroup // for the goroutines of the process

	mu sync.Mutex // held while a command runs
	// wait is that for the timeout of a quiesced task. It is nil for a task that is not quiesced.
	wait context.Context
	end  context.CancelFunc // ends it
	// late is the reason why the task was resumed before the servers said so.
	late string
}

// quiesce runs the first command. If it fails, the second one runs, too: the first may have done a part.
func (m *quiescedTask) quiesce(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wait != nil {
		m.finish("another snapshot has begun")
	}

	err := quiesceTable.Put(m.db, m.key, &quiesceRecord{Time: time.Now()})
	if err == nil {
		err = m.run(ctx, m.commands.Pre)
	}
	if err != nil {
		m.finish("")
		return structs.Preconditionf("the command before the snapshot has failed: %w", err)
	}

	wait, end := context.WithTimeout(m.ctx, m.commands.Timeout)
	m.wait = wait
	m.end = end
	m.waits.Go(func() {
		<-wait.Done()
		m.lapse(wait)
	})
	return nil
}

// lapse resumes the task after its timeout, unless the wait has ended before. The task may be quiesced anew
// by the time that it runs, and then has another wait.
func (m *quiescedTask) lapse(wait context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wait.Err() != context.DeadlineExceeded || m.ctx.Err() != nil || m.wait != wait {
		return
	}
	reason := fmt.Sprintf("it was resumed after its timeout of %s, before the snapshot was cut",
		m.commands.Timeout)
	m.finish(reason)
	m.say("the task was resumed: the snapshot was not cut within the timeout of " +
		m.commands.Timeout.String())
}

// resume runs the second command, unless it has run.
func (m *quiescedTask) resume() *nodecalls.ResumeResponse {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wait == nil {
		late := m.late
		if late == "" {
			late = "it has another process, which is not quiesced"
		}
		return &nodecalls.ResumeResponse{Late: late}
	}
	return &nodecalls.ResumeResponse{Fault: m.finish("")}
}

// finish runs the second command and returns why it has failed, "" if it has not. The record stays if the
// process or the agent ends meanwhile: then the next one runs the command.
func (m *quiescedTask) finish(late string) (fault string) {
	if m.wait != nil {
		m.end()
		m.wait = nil
	}
	m.late = late
	err := m.run(m.ctx, m.commands.Post)
	if m.ctx.Err() != nil {
		return errQuiesceEnded.Error()
	}
	if err != nil {
		fault = err.Error()
		m.say("the command after the snapshot has failed, and the task may still be quiesced: " + fault)
	}
	err = quiesceTable.Delete(m.db, m.key)
	if err != nil {
		m.logger.Warn("failed to remove the record of a quiesced task", "volume_id", m.volumeID, "error", err)
	}
	return fault
}

// run runs a command, if there is one, and ends it with the process or the agent.
func (m *quiescedTask) run(ctx context.Context, command []string) error {
	if m.ctx.Err() != nil {
		return errQuiesceEnded
	}
	if len(command) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(m.ctx, func() { cancel(errQuiesceEnded) })
	defer stop()
	return hooks.RunCommand(ctx, m.task, command, m.commands.Timeout)
}

func (m *quiescedTask) say(text string) {
	m.task.Emit(&structs.TaskEvent{
		Type:    structs.TaskEventHookMessage,
		Message: structs.Cut("snapshot of volume "+m.volumeID+": "+text, structs.MaxReason),
	})
}

package csihooks

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/store"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/jobtext"
)

// quiesceWorld is a node with an allocation whose task db writes volume v.
type quiesceWorld struct {
	*testing.T
	db       *store.DB
	tasks    *QuiescedTasks
	commands structs.SnapshotCommands

	mu     sync.Mutex
	ran    []string
	events []string
	failed map[string]bool // programs that exit with 3
	hung   string          // the program that does not end
	begun  chan string     // each program that begins
}

func newQuiesceWorld(t *testing.T) *quiesceWorld {
	t.Helper()
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &quiesceWorld{
		T:      t,
		db:     db,
		failed: map[string]bool{},
		begun:  make(chan string, 100),
		commands: structs.SnapshotCommands{
			Pre:     []string{"pre", "${X}"},
			Post:    []string{"post"},
			Timeout: time.Minute,
		},
	}
	w.tasks = NewQuiescedTasks(db, hclog.NewNullLogger())
	return w
}

// process is one process of the task, as one agent sees it.
type process struct {
	hooks.Control
	*quiesceWorld
	hook hooks.Task
	stop context.CancelFunc // of the agent
}

// start starts the task under the present agent.
func (w *quiesceWorld) start() *process {
	w.Helper()
	task := &structs.Task{Name: "db", VolumeMounts: []*structs.VolumeMount{
		{Volume: "logs"}, {Volume: "data", Snapshot: &w.commands},
	}}
	env := &hooks.AllocEnv{
		Alloc: &structs.Allocation{ID: "a1", Name: "job.group[0]"},
		Group: &structs.TaskGroup{Volumes: map[string]*structs.VolumeRequest{
			"data": {Type: structs.VolumeTypeCSI, Source: "v"},
			"logs": {Type: structs.VolumeTypeCSI, Source: "w"},
		}},
		Expand: func(s string) string { return s },
	}
	p := &process{quiesceWorld: w, hook: w.tasks.Hook(env, task)}
	expand := func(s string) string {
		return strings.NewReplacer("${X}", "x", jobtext.Placeholder, jobtext.Value).Replace(s)
	}
	err := p.hook.Up(w.Context(), &hooks.TaskEnv{AllocEnv: env, Expand: expand})
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.Context())
	p.stop = stop
	p.hook.(hooks.Started).Started(ctx, p)
	w.Cleanup(func() { stop() })
	return p
}

// end ends the process.
func (p *process) end() { p.hook.(hooks.Started).Stopped() }

// leave stops the agent, and starts another one beside the process.
func (p *process) leave() {
	p.stop()
	p.end()
	p.tasks = NewQuiescedTasks(p.db, hclog.NewNullLogger())
}

func (p *process) Emit(e *structs.TaskEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e.Message)
}

func (p *process) Exec(ctx context.Context, x *driver.ExecConfig) (*driver.ExitResult, error) {
	text := strings.Join(x.Command, " ")
	p.mu.Lock()
	p.ran = append(p.ran, text)
	failed := p.failed[x.Command[0]]
	hung := p.hung == x.Command[0]
	p.mu.Unlock()
	p.begun <- text
	if hung {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if failed {
		_, _ = io.WriteString(x.Stderr, "no space\n")
		return &driver.ExitResult{ExitCode: 3}, nil
	}
	return &driver.ExitResult{}, nil
}

func (w *quiesceWorld) request() *nodecalls.QuiesceRequest {
	return &nodecalls.QuiesceRequest{VolumeID: "v", AllocID: "a1", Task: "db"}
}

func (w *quiesceWorld) quiesce(fault string) {
	w.Helper()
	_, err := w.tasks.quiesce(w.Context(), w.request())
	if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
		w.Errorf("got %v, want %q", err, fault)
	}
}

func (w *quiesceWorld) resume() *nodecalls.ResumeResponse {
	w.Helper()
	resp, err := w.tasks.resume(w.Context(), w.request())
	if err != nil {
		w.Fatal(err)
	}
	return resp
}

// want checks the commands that have run, the events and the number of records.
func (w *quiesceWorld) want(left int, ran ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all, err := quiesceTable.All(w.db, "")
	if err != nil || len(all) != left || !slices.Equal(w.ran, ran) {
		w.Errorf("ran %q with %d records left (%v), want %q with %d", w.ran, len(all), err, ran, left)
	}
}

func TestQuiesce_RunsTheCommandsInOrder(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.quiesce("")
	w.want(1, "pre x")
	if got := w.resume(); *got != (nodecalls.ResumeResponse{}) {
		t.Errorf("got %+v", got)
	}
	p.hook.(*quiesceHook).waits.Wait() // the end of the wait for the timeout
	w.want(0, "pre x", "post")
	p.end()
	if len(w.events) != 0 {
		t.Errorf("the events are %q", w.events)
	}
}

func TestQuiesce_FailsWithTheOutputAndResumes(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.failed["pre"] = true
	w.quiesce(`exit code 3; it wrote "no space"`)
	w.want(0, "pre x", "post")
	p.end()
}

func TestQuiesce_OfATaskThatDoesNotRunIsRejected(t *testing.T) {
	w := newQuiesceWorld(t)
	w.quiesce("it does not run")
	w.start().end()
	w.quiesce("it does not run")
	w.want(0)
}

// A leader may be lost between the two commands. Its successor takes the snapshot anew.
func TestQuiesce_AgainResumesFirst(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.quiesce("")
	w.quiesce("")
	w.want(1, "pre x", "post", "pre x")
	if got := w.resume(); *got != (nodecalls.ResumeResponse{}) {
		t.Errorf("got %+v", got)
	}
	p.end()
}

func TestResume_TellsTheFailureOfItsCommand(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.quiesce("")
	w.failed["post"] = true
	got := w.resume()
	if got.Late != "" || !strings.Contains(got.Fault, "no space") {
		t.Errorf("got %+v", got)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "may still be quiesced") {
		t.Errorf("the events are %q", w.events)
	}
	w.want(0, "pre x", "post")
	p.end()
}

func TestResume_ComesByItselfAfterTheTimeout(t *testing.T) {
	w := newQuiesceWorld(t)
	w.commands.Timeout = time.Millisecond * 200
	p := w.start()
	w.quiesce("")
	for text := range w.begun {
		if text == "post" {
			break
		}
	}
	got := w.resume()
	if !strings.Contains(got.Late, "after its timeout of 200ms") {
		t.Errorf("got %+v", got)
	}
	if len(w.events) != 1 || !strings.Contains(w.events[0], "was not cut within the timeout") {
		t.Errorf("the events are %q", w.events)
	}
	w.want(0, "pre x", "post")
	p.end()
}

// The timeout of a pause may pass while the next pause begins.
func TestResume_DoesNotComeByTheTimeoutOfAnEarlierPause(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.quiesce("")
	earlier, cancel := context.WithTimeout(w.Context(), 0)
	defer cancel()
	w.tasks.running[quiesceKey("a1", "db", "v")].lapse(earlier)
	w.want(1, "pre x")
	if got := w.resume(); *got != (nodecalls.ResumeResponse{}) {
		t.Errorf("got %+v", got)
	}
	p.end()
}

// The next agent, or the next process of the task, resumes a task that was quiesced.
func TestStarted_ResumesATaskThatWasQuiesced(t *testing.T) {
	for name, next := range map[string]func(*process){
		"agent":   (*process).leave,
		"process": (*process).end,
	} {
		t.Run(name, func(t *testing.T) {
			w := newQuiesceWorld(t)
			p := w.start()
			w.quiesce("")
			next(p)
			w.want(1, "pre x")

			p = w.start()
			got := w.resume()
			if !strings.Contains(got.Late, "restart of the task or of the agent") {
				t.Errorf("got %+v", got)
			}
			w.want(0, "pre x", "post")
			p.end()
		})
	}
}

func TestStopped_EndsACommandAndKeepsTheRecord(t *testing.T) {
	for _, hung := range []string{"pre", "post"} {
		t.Run(hung, func(t *testing.T) {
			w := newQuiesceWorld(t)
			p := w.start()
			w.hung = hung
			ended := make(chan string, 1)
			go func() {
				_, err := w.tasks.quiesce(t.Context(), w.request())
				resp, _ := w.tasks.resume(t.Context(), w.request())
				ended <- fmt.Sprint(err, resp)
			}()
			for text := range w.begun {
				if strings.HasPrefix(text, hung) {
					break
				}
			}
			p.end()
			if got := <-ended; !strings.Contains(got, errQuiesceEnded.Error()) {
				t.Errorf("got %s", got)
			}
			all, err := quiesceTable.All(w.db, "")
			if err != nil || len(all) != 1 {
				t.Errorf("%d records, %v", len(all), err)
			}
		})
	}
}

func TestDown_RemovesTheRecord(t *testing.T) {
	w := newQuiesceWorld(t)
	p := w.start()
	w.quiesce("")
	p.end()
	err := p.hook.Down(t.Context())
	if err != nil {
		t.Error(err)
	}
	w.want(0, "pre x")
}

func TestHook_IsForTasksWithCommandsOnly(t *testing.T) {
	w := newQuiesceWorld(t)
	host := &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "v"}
	env := &hooks.AllocEnv{
		Alloc:  &structs.Allocation{ID: "a1", Name: "job.group[0]"},
		Group:  &structs.TaskGroup{Volumes: map[string]*structs.VolumeRequest{"data": host}},
		Expand: func(s string) string { return s },
	}
	for name, task := range map[string]*structs.Task{
		"no mount":    {},
		"no commands": {VolumeMounts: []*structs.VolumeMount{{Volume: "data"}}},
		"host volume": {VolumeMounts: []*structs.VolumeMount{{Volume: "data", Snapshot: &w.commands}}},
	} {
		if h := w.tasks.Hook(env, task); h != nil {
			t.Errorf("%s: got %v", name, h)
		}
	}
}

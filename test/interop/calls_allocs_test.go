package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// allocCalls act on the allocation of the fixture and on others.
var allocCalls = []callRow{
	{"Allocations.Stats", func(f *callFixture) error {
		return f.retried(func() error { // a supervisor that does not answer in time is left out
			usage, err := f.c.Allocations().Stats(f.alloc, nil)
			return check(err, func() bool { return usage.Tasks["app"] != nil && usage.Timestamp > 0 }, usage)
		})
	}},
	{"Allocations.Exec", func(f *callFixture) error {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		defer cancel()
		code, err := f.c.Allocations().Exec(ctx, f.alloc, "app", false, []string{"/bin/sh", "-c", "cat; exit 3"},
			strings.NewReader("input"), &out, &errs, nil, nil)
		return check(err, func() bool { return code == 3 && out.String() == "input" }, out.String()+errs.String())
	}},
	{"Jobs.ActionExec", func(f *callFixture) error {
		job := quickJob("acts", "sleep 600")
		job.TaskGroups[0].Tasks[0].Actions = []*public.Action{{
			Name:    "show",
			Command: "/bin/sh",
			Args:    []string{"-c", "echo in ${NOMAD_TASK_NAME}; cat; exit 3"},
		}}
		alloc := runJob(f.t, f.c, job)
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		defer cancel()
		code, err := f.c.Jobs().ActionExec(ctx, alloc, "acts", "app", false, nil, "show",
			strings.NewReader("input"), &out, &errs, nil, nil)
		return check(err, func() bool { return code == 3 && out.String() == "in app\ninput" },
			out.String()+errs.String())
	}},
	{"Allocations.Signal", func(f *callFixture) error {
		return f.c.Allocations().Signal(f.alloc, nil, "app", "SIGCONT")
	}},
	{"Allocations.Restart", func(f *callFixture) error {
		err := f.c.Allocations().Restart(f.alloc, "app", nil)
		f.awaitRestarts(1)
		return err
	}},
	{"Allocations.RestartAllTasks", func(f *callFixture) error {
		err := f.c.Allocations().RestartAllTasks(f.alloc, nil)
		f.awaitRestarts(2)
		return err
	}},
	{"Allocations.Stop", func(f *callFixture) error {
		job := quickJob("stopped", "sleep 600")
		delay := time.Hour
		job.TaskGroups[0].ShutdownDelay = &delay
		alloc := runJob(f.t, f.c, job)
		resp, err := f.c.Allocations().Stop(alloc, &public.QueryOptions{
			Params: map[string]string{"no_shutdown_delay": "true"},
		})
		f.await("its end without the delay", func() (bool, error) {
			ended, _, err := f.c.Allocations().Info(alloc.ID, nil)
			if err != nil {
				return false, err
			}
			return ended.ClientStatus == "complete" && ended.DesiredTransition.ShouldIgnoreShutdownDelay(), nil
		})
		f.await("a replacement", func() (bool, error) {
			allocs, _, err := f.c.Jobs().Allocations("stopped", true, nil)
			return len(allocs) == 2, err
		})
		_, _, stopErr := f.c.Jobs().DeregisterOpts("stopped", &public.DeregisterOptions{NoShutdownDelay: true}, nil)
		f.awaitEnd("stopped")
		return check(errors.Join(err, stopErr), func() bool { return resp.EvalID != "" }, resp)
	}},
	{"Allocations.GC", func(f *callFixture) error {
		alloc := f.endedAlloc()
		return f.retried(func() error { return f.c.Allocations().GC(alloc, nil) })
	}},
	{"Nodes.GcAlloc", func(f *callFixture) error {
		alloc := f.endedAlloc()
		return f.retried(func() error {
			return checkRejected(f.c.Nodes().GcAlloc(alloc.ID, nil), "Unmarshal(nil)")
		})
	}},
	{"Nodes.Identity.Get", func(f *callFixture) error {
		_, err := f.c.Nodes().Identity().Get(&public.NodeIdentityGetRequest{NodeID: f.nodeID}, nil)
		return checkRejected(err, "this agent has no TLS certificate")
	}},
	{"Nodes.Identity.Renew", func(f *callFixture) error {
		_, err := f.c.Nodes().Identity().Renew(&public.NodeIdentityRenewRequest{NodeID: f.nodeID}, nil)
		return checkRejected(err, "this agent has no TLS certificate")
	}},
	{"Nodes.GC", func(f *callFixture) error {
		alloc := f.endedAlloc()
		if err := f.c.Nodes().GC(f.nodeID, nil); err != nil {
			return err
		}
		f.await("its directory removed", func() (bool, error) {
			err := f.c.Nodes().GC(f.nodeID, nil)
			if err != nil {
				return false, err
			}
			_, _, err = f.c.AllocFS().List(alloc, "/", nil)
			return err != nil && strings.Contains(err.Error(), "404"), nil
		})
		return nil
	}},
	{"Evaluations.Delete", func(f *callFixture) error {
		id, _, err := f.c.Jobs().ForceEvaluate(f.job, nil)
		if err != nil {
			return err
		}
		f.await("an evaluation without allocations", func() (bool, error) {
			e, _, err := f.c.Evaluations().Info(id, nil)
			return err == nil && e.Status == "complete", err
		})
		if err := checkIndex(f.c.Evaluations().Delete([]string{id}, nil)); err != nil {
			return err
		}
		_, _, err = f.c.Evaluations().Info(id, nil)
		if err == nil || !strings.Contains(err.Error(), "404") {
			return fmt.Errorf("a deleted evaluation: %w", err)
		}
		return nil
	}},
	{"Evaluations.DeleteOpts", func(f *callFixture) error {
		id, _, err := f.c.Jobs().ForceEvaluate(f.job, nil)
		if err != nil {
			return err
		}
		var resp *public.EvalDeleteResponse
		f.await("an evaluation that has ended", func() (bool, error) {
			resp, _, err = f.c.Evaluations().DeleteOpts(&public.EvalDeleteRequest{Filter: `ID == "` + id + `"`}, nil)
			return err == nil && resp.Count == 1, err
		})
		return err
	}},
}

// awaitRestarts waits until the task of the fixture has started again so often, and has written its file and
// its output.
func (f *callFixture) awaitRestarts(n uint64) {
	f.t.Helper()
	f.await("a restart", func() (bool, error) {
		a, _, err := f.c.Allocations().Info(f.alloc.ID, nil)
		if err != nil {
			return false, err
		}
		s := a.TaskStates["app"]
		return s.State == "running" && s.Restarts == n, nil
	})
	f.await("its output", func() (bool, error) {
		log, err := f.c.AllocFS().Cat(f.alloc, "alloc/logs/app.stdout.0", nil)
		if err != nil {
			return false, err
		}
		return uint64(strings.Count(readAll(f.t, log), "hello\n")) == n+1, nil
	})
}

// endedAlloc runs a batch job to its end, and returns its allocation.
func (f *callFixture) endedAlloc() *public.Allocation {
	f.t.Helper()
	f.changes++
	job := shellJob(fmt.Sprint("ended-", f.changes), "true")
	job.Type = new("batch")
	if _, _, err := f.c.Jobs().Register(job, nil); err != nil {
		f.t.Fatal(err)
	}
	var id string
	f.await("an allocation that has ended", func() (bool, error) {
		allocs, _, err := f.c.Jobs().Allocations(*job.ID, true, nil)
		if len(allocs) == 1 && allocs[0].ClientStatus == "complete" {
			id = allocs[0].ID
		}
		return id != "", err
	})
	alloc, _, err := f.c.Allocations().Info(id, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return alloc
}

// retried makes a call until it succeeds: the node lets an allocation go after its end.
func (f *callFixture) retried(call func() error) (err error) {
	deadline := time.Now().Add(patience)
	for err = call(); err != nil && time.Now().Before(deadline); err = call() {
		time.Sleep(50 * time.Millisecond) // the interval of a poll
	}
	return err
}

// fileCalls read the files and the log of the allocation of the fixture.
var fileCalls = []callRow{
	{"AllocFS.List", func(f *callFixture) error {
		files, _, err := f.c.AllocFS().List(f.alloc, "app/local", nil)
		return check(err, func() bool { return len(files) == 1 && files[0].Name == "lines" }, files)
	}},
	{"AllocFS.Stat", func(f *callFixture) error {
		file, _, err := f.c.AllocFS().Stat(f.alloc, "app/local/lines", nil)
		return check(err, func() bool { return file.Size == 8 && !file.IsDir }, file)
	}},
	{"AllocFS.Cat", func(f *callFixture) error {
		return f.checkText("one\ntwo\n")(f.c.AllocFS().Cat(f.alloc, "app/local/lines", nil))
	}},
	{"AllocFS.ReadAt", func(f *callFixture) error {
		return f.checkText("two")(f.c.AllocFS().ReadAt(f.alloc, "app/local/lines", 4, 3, nil))
	}},
	{"AllocFS.Stream", func(f *callFixture) error {
		frames, errs := f.c.AllocFS().Stream(f.alloc, "app/local/lines", "start", 0, f.t.Context().Done(), nil)
		return checkFrame("one\ntwo\n", frames, errs)
	}},
	{"AllocFS.Logs", func(f *callFixture) error {
		frames, errs := f.c.AllocFS().Logs(f.alloc, false, "app", "stdout", "end", 6, f.t.Context().Done(), nil)
		return checkFrame("hello\n", frames, errs)
	}},
}

// checkText returns a check of a body.
func (f *callFixture) checkText(want string) func(io.ReadCloser, error) error {
	return func(r io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		text := readAll(f.t, r)
		return check(nil, func() bool { return text == want }, text)
	}
}

// checkFrame checks the first frame with data.
func checkFrame(want string, frames <-chan *public.StreamFrame, errs <-chan error) error {
	deadline := time.After(patience)
	for {
		select {
		case frame, open := <-frames:
			if open && len(frame.Data) == 0 {
				continue
			}
			return check(nil, func() bool { return open && string(frame.Data) == want }, frame)
		case err := <-errs:
			return err
		case <-deadline:
			return errors.New("no frame")
		}
	}
}

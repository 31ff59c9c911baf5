package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/api"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/internal/netfault"
	"berth/structs"
)

// TestWatch_ContinuesAfterAnElection checks that a watch survives one election and many, and the restart of
// an agent that was killed while a read waited, but not the loss of all servers, and that it tells of each.
func TestWatch_ContinuesAfterAnElection(t *testing.T) {
	unavailable := structs.Errorf(structs.KindUnavailable, "the cluster has no leader")
	refused := structs.Errorf(structs.KindNotFound, "no such job")
	slow := structs.Timeoutf("the server did not answer in time")
	for name, c := range map[string]struct {
		answers func(run int) error
		runs    int
		kind    structs.Kind
		took    time.Duration
		told    int
	}{
		"one election": {func(run int) error {
			if run < 4 {
				return unavailable
			}
			return nil
		}, 4, "", 3 * outagePause, 1},
		"many elections": {func(run int) error {
			if run == 60 {
				return nil
			}
			time.Sleep(outage + time.Second)
			return unavailable
		}, 60, "", 59 * (outage + time.Second + outagePause), 59},
		"a killed agent": {func(run int) error {
			if run == 1 {
				return structs.Timeoutf("the agent did not answer: %w", netfault.Plain(io.EOF))
			}
			return nil
		}, 2, "", outagePause, 1},
		"a slow agent":  {func(int) error { return slow }, 1, structs.KindTimeout, 0, 0},
		"no server":     {func(int) error { return unavailable }, 21, structs.KindUnavailable, outage, 1},
		"another error": {func(int) error { return refused }, 1, structs.KindNotFound, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				runs := 0
				var out strings.Builder
				w := New(&command.Call{Stdio: command.Stdio{Out: &out}, Command: &command.Command{}})
				err := w.RetryOutage(t.Context(), func(context.Context) error {
					runs++
					w.WaitFor("job", "prod", "web")
					return c.answers(runs)
				})
				if runs != c.runs ||
					structs.KindOf(err) != c.kind ||
					time.Since(began) != c.took {
					t.Errorf("got %v after %s and %d runs, want %q after %s and %d",
						err, time.Since(began), runs, c.kind, c.took, c.runs)
				}
				if c.took == outage && !strings.HasSuffix(err.Error(), "; the operation continues; "+
					"to see what it waits for: berth job why -namespace prod web") {
					t.Errorf("the error does not name the next step: %v", err)
				}
				if got := strings.Count(out.String(), "waits for the servers: "); got != c.told {
					t.Errorf("the watch tells of %d outages, want %d:\n%s", got, c.told, out.String())
				}
			})
		})
	}
}

// TestWatch_KnowsALostConnection checks the error of the client when an agent is killed while a read waits.
func TestWatch_KnowsALostConnection(t *testing.T) {
	reads := 0
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		if reads == 1 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "{}")
	}))
	defer agent.Close()
	client := api.NewClient(api.ClientConfig{Address: agent.URL})
	w := New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
	err := w.RetryOutage(t.Context(), func(ctx context.Context) error {
		_, _, err := client.Evaluation(ctx, "e", &api.Query{MinIndex: 7})
		return err
	})
	if err != nil || reads < 2 {
		t.Errorf("after %d reads the watch ended with %v", reads, err)
	}
}

// TestWatch_EndsWhenTheCanariesAreHealthy checks that a watch advises a promotion only if it would be
// accepted. Other allocations of the version, ended canaries and those of other groups do not count.
func TestWatch_EndsWhenTheCanariesAreHealthy(t *testing.T) {
	other := clitest.DeployedAlloc("app", false, true)
	ended := clitest.DeployedAlloc("app", true, true)
	ended.ClientStatus = structs.AllocFailed
	stopped := clitest.DeployedAlloc("app", true, true)
	stopped.DesiredStatus = structs.AllocDesiredStop
	for name, c := range map[string]struct {
		alloc *structs.AllocListStub
		done  bool
	}{
		"a healthy canary":     {clitest.DeployedAlloc("app", true, true), true},
		"an unhealthy canary":  {clitest.DeployedAlloc("app", true, false), false},
		"a healthy allocation": {other, false},
		"an ended canary":      {ended, false},
		"a stopped canary":     {stopped, false},
		"one of another group": {clitest.DeployedAlloc("db", true, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
			done, err := endOfDeployment(w, clitest.WebDeployment(), []*structs.AllocListStub{c.alloc})
			if done != c.done || err != nil {
				t.Errorf("the watch ends: %v (%v), want %v", done, err, c.done)
			}
		})
	}
}

// TestWatch_AdvisesCommandsWithTheNamespace checks that the advice on a deployment finds it: it is in the
// namespace of its job, which the user may have given in the file of the job.
func TestWatch_AdvisesCommandsWithTheNamespace(t *testing.T) {
	for status, want := range map[string]string{
		structs.DeploymentRunning: "berth deployment promote -namespace prod d1d1d1d1",
		structs.DeploymentPaused:  "berth deployment resume -namespace prod d1d1d1d1",
	} {
		d := clitest.WebDeployment()
		d.Namespace = "prod"
		d.Status = status
		var out strings.Builder
		w := New(&command.Call{Stdio: command.Stdio{Out: &out}, Command: &command.Command{}})
		done, err := endOfDeployment(w, d, []*structs.AllocListStub{clitest.DeployedAlloc("app", true, true)})
		if err != nil || !done || !strings.Contains(out.String(), want) {
			t.Errorf("%s: the watch ends: %v (%v), and says %q, want %q in it", status, done, err, out.String(), want)
		}
	}
}

// TestWatch_ReadsTheEndOfADeployment checks that a watch of a job awaits the allocations of a deployment that
// has succeeded, also with canaries that were promoted meanwhile, and those of no other.
func TestWatch_ReadsTheEndOfADeployment(t *testing.T) {
	for status, awaits := range map[string]bool{
		structs.DeploymentPaused:     false,
		structs.DeploymentSuccessful: true,
	} {
		awaited := false
		read := clitest.WebDeployment()
		if !awaits {
			read.TaskGroups["app"].DesiredCanaries = 0
		}
		answers := map[string]func() any{
			"/v1/job/web":            func() any { return &structs.Job{ID: "web", Version: 2} },
			"/v1/job/web/deployment": func() any { return read },
			"/v1/deployment/" + clitest.Deployment1: func() any {
				d := *read
				d.Status = status
				return &d
			},
			"/v1/job/web/allocations": func() any {
				awaited = true
				return []*structs.AllocListStub{}
			},
			"/v1/deployment/allocations/" + clitest.Deployment1: func() any {
				return []*structs.AllocListStub{}
			},
		}
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(answers[r.URL.Path]())
		}))
		w := New(&command.Call{
			Stdio:   command.Stdio{Out: io.Discard},
			Command: &command.Command{},
			API:     api.NewClient(api.ClientConfig{Address: agent.URL}),
		})
		err := awaitJob(t.Context(), w, &structs.Job{ID: "web"}, "")
		if err != nil || awaited != awaits {
			t.Errorf("%s: the watch awaits allocations: %v (%v), want %v", status, awaited, err, awaits)
		}
		agent.Close()
	}
}

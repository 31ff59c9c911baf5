package watch

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/api"
	"berth/api/jobs"
	"berth/cli/command"
	"berth/internal/netfault"
	"berth/structs"
)

// TestWatch_ContinuesAfterAnElection checks that a watch survives one election and many, and the restart of
// an agent that was killed while a read waited, but not the loss of all servers, and that it tells of each.
func TestWatch_ContinuesAfterAnElection(t *testing.T) {
	unavailable := structs.Errorf(structs.KindUnavailable, "the cluster has no leader")
	rejected := structs.Errorf(structs.KindNotFound, "no such job")
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
		"another error": {func(int) error { return rejected }, 1, structs.KindNotFound, 0, 0},
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
		io.WriteString(w, `{"ID":"e"}`)
	}))
	defer agent.Close()
	client := api.NewClient(api.ClientConfig{Address: agent.URL})
	w := New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
	err := w.RetryOutage(t.Context(), func(ctx context.Context) error {
		_, _, err := jobs.GetEvaluation(ctx, client, "e", &api.Query{MinIndex: 7})
		return err
	})
	if err != nil || reads < 2 {
		t.Errorf("after %d reads the watch ended with %v", reads, err)
	}
}

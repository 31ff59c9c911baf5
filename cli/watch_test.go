package cli

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// TestWatch_ContinuesAfterAnElection checks that a watch survives one election and many, but not the loss of
// all servers.
func TestWatch_ContinuesAfterAnElection(t *testing.T) {
	unavailable := structs.Errorf(structs.KindUnavailable, "the cluster has no leader")
	refused := structs.Errorf(structs.KindNotFound, "no such job")
	for name, c := range map[string]struct {
		answers func(run int) error
		runs    int
		kind    structs.Kind
		took    time.Duration
	}{
		"one election": {func(run int) error {
			if run < 4 {
				return unavailable
			}
			return nil
		}, 4, "", 3 * outagePause},
		"many elections": {func(run int) error {
			if run == 60 {
				return nil
			}
			time.Sleep(outage + time.Second)
			return unavailable
		}, 60, "", 59 * (outage + time.Second + outagePause)},
		"no server":     {func(int) error { return unavailable }, 21, structs.KindUnavailable, outage},
		"another error": {func(int) error { return refused }, 1, structs.KindNotFound, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				runs := 0
				err := retryOutage(t.Context(), func(context.Context) error {
					runs++
					return c.answers(runs)
				})
				if runs != c.runs ||
					structs.KindOf(err) != c.kind ||
					time.Since(began) != c.took {
					t.Errorf("got %v after %s and %d runs, want %q after %s and %d",
						err, time.Since(began), runs, c.kind, c.took, c.runs)
				}
			})
		})
	}
}

// TestWatch_EndsWhenTheCanariesAreHealthy checks that a watch advises a promotion only if it would be
// accepted. Other allocations of the version, ended canaries and those of other groups do not count.
func TestWatch_EndsWhenTheCanariesAreHealthy(t *testing.T) {
	other := deployedAlloc("app", false, true)
	ended := deployedAlloc("app", true, true)
	ended.ClientStatus = structs.AllocFailed
	stopped := deployedAlloc("app", true, true)
	stopped.DesiredStatus = structs.AllocDesiredStop
	for name, c := range map[string]struct {
		alloc *structs.AllocListStub
		done  bool
	}{
		"a healthy canary":     {deployedAlloc("app", true, true), true},
		"an unhealthy canary":  {deployedAlloc("app", true, false), false},
		"a healthy allocation": {other, false},
		"an ended canary":      {ended, false},
		"a stopped canary":     {stopped, false},
		"one of another group": {deployedAlloc("db", true, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(&Call{Stdio: Stdio{Out: io.Discard}, cmd: &Command{}})
			done, err := w.endOfDeployment(webDeployment(), []*structs.AllocListStub{c.alloc})
			if done != c.done || err != nil {
				t.Errorf("the watch ends: %v (%v), want %v", done, err, c.done)
			}
		})
	}
}

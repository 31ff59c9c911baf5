package cli

import (
	"context"
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

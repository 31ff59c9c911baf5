package allocrunner

import (
	"testing"
	"testing/synctest"
)

// TestRunner_KillSignalMayBeAPlaceholder stops tasks whose signals have placeholders. One without a value, or
// whose value is no signal, gets the default of the driver.
func TestRunner_KillSignalMayBeAPlaceholder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("good", "bad", "unknown")
		g := alloc.Job.TaskGroups[0]
		g.Tasks[0].KillSignal = "sig${NOMAD_META_signal}"
		g.Tasks[1].KillSignal = "${NOMAD_META_nonsense}"
		g.Tasks[2].KillSignal = "${meta.none}"
		alloc.Job.Meta = map[string]string{"signal": "usr1", "nonsense": "SIGNOPE"}
		r := a.new(alloc)
		synctest.Wait()
		r.Stop("enough")
		<-r.Unwound()
		for task, want := range map[string]string{"good": "SIGUSR1", "bad": "", "unknown": ""} {
			if got := fx.machine.Task("alloc1/" + task).Signal; got != want {
				t.Errorf("task %s: got the signal %q, want %q", task, got, want)
			}
		}
	})
}

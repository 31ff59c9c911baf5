package executor

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
)

// recordedProcess is a process that ignores its signals and records them.
type recordedProcess struct {
	signals []unix.Signal
	killed  atomic.Int32 // timers kill it, each in a goroutine of its own
}

func (p *recordedProcess) Signal(sig unix.Signal) error {
	p.signals = append(p.signals, sig)
	return nil
}

func (p *recordedProcess) Kill() error {
	p.killed.Add(1)
	return nil
}

func (p *recordedProcess) Wait() (sandbox.Exit, error) { return sandbox.Exit{}, nil }

func TestStop_SendsARepeatedSignalOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proc := &recordedProcess{}
		s := &supervisor{proc: proc}
		stop := func(sig unix.Signal, timeout time.Duration) {
			t.Helper()
			r := s.serveRequest(&request{
				Op:      opStop,
				Signal:  int(sig),
				Timeout: timeout,
			})
			if r.Error != "" {
				t.Fatal(r.Error)
			}
		}
		stop(unix.SIGINT, time.Hour)
		stop(unix.SIGINT, time.Minute)
		time.Sleep(time.Minute + time.Second)
		if proc.killed.Load() == 0 {
			t.Error("the timeout of the repeated request does not hold")
		}
		stop(unix.SIGTERM, 2*time.Hour) // an operator chose another signal
		expected := []unix.Signal{unix.SIGINT, unix.SIGTERM}
		if !slices.Equal(proc.signals, expected) {
			t.Errorf("the task got %v, expected %v", proc.signals, expected)
		}
		time.Sleep(3 * time.Hour) // no timer outlives the test
	})
}

package rpc

import (
	"testing"
	"testing/synctest"
)

// runAtOnce runs n functions at the same time and waits until all have returned.
func runAtOnce(w *workers, n int) {
	release := make(chan struct{})
	for range n {
		w.run(func() { <-release })
	}
	close(release)
	synctest.Wait()
}

func TestWorkers_UseTheIdleGoroutineAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		defer w.close()
		runAtOnce(w, 1)
		handed := false
		select {
		case w.next <- func() { handed = true }:
		default:
		}
		synctest.Wait()
		if !handed {
			t.Error("no goroutine waits for the next function")
		}
	})
}

func TestWorkers_OneIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		defer w.close()
		runAtOnce(w, 10)
		if got := w.idle.Load(); got != mostIdle {
			t.Errorf("got %d idle goroutines, want %d", got, mostIdle)
		}
	})
}

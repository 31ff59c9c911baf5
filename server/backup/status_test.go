package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/test/kit"
)

// figures directs the metrics of the process to a sink, and returns a function with the newest gauges.
func figures(t *testing.T) func(name string) float32 {
	sink := metrics.NewInmemSink(time.Hour, 100*time.Hour)
	_, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink)
	kit.Must(t, err)
	return func(name string) float32 {
		value := float32(-1)
		for _, interval := range sink.Data() {
			interval.RLock()
			if g, ok := interval.Gauges["snapshot_agent."+name]; ok {
				value = g.Value
			}
			interval.RUnlock()
		}
		return value
	}
}

// forget ends the metrics of a test.
func forget(t *testing.T) {
	_, err := metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{})
	kit.Must(t, err)
}

// wantState holds the state and the gauges of an agent.
func wantState(t *testing.T, a *Agent, gauge func(string) float32, state string, failing, overdue float32) {
	t.Helper()
	synctest.Wait()
	got := a.Stats()
	if got["state"] != state || gauge("failing") != failing || gauge("overdue") != overdue {
		t.Errorf("at %s: got %v, failing %v, overdue %v; want %s, %v, %v", time.Now(), got,
			gauge("failing"), gauge("overdue"), state, failing, overdue)
	}
}

func TestStatus_TellsOfAProgramThatFails(t *testing.T) {
	a := program(t, "exit 1")
	const reason = "no such bucket"
	var fails atomic.Bool
	fails.Store(true)
	a.put = func(_ context.Context, _ string, archive io.Reader) error {
		_, err := io.Copy(io.Discard, archive)
		if err == nil && fails.Load() {
			return errors.New(reason)
		}
		return err
	}
	defer forget(t)
	synctest.Test(t, func(t *testing.T) {
		gauge := figures(t)
		if got := a.Stats()["state"]; !strings.HasPrefix(got, "idle") {
			t.Errorf("before the leadership: got %s", got)
		}
		stop := run(a)
		time.Sleep(30 * time.Minute)
		wantState(t, a, gauge, "ok", 0, 0)
		time.Sleep(time.Hour)
		wantState(t, a, gauge, "failing", 1, 0)
		if got := a.Stats(); got["error"] != reason || got["newest"] != "none known" {
			t.Errorf("before the first archive: got %v", got)
		}
		time.Sleep(time.Hour)
		wantState(t, a, gauge, "overdue", 1, 1)
		fails.Store(false)
		time.Sleep(11 * time.Minute)
		wantState(t, a, gauge, "ok", 0, 0)
		newest, err := time.Parse(time.RFC3339, a.Stats()["newest"])
		if age := time.Since(newest); err != nil || age > 11*time.Minute {
			t.Errorf("after the first archive: its age is %s, %v", age, err)
		}
		fails.Store(true)
		time.Sleep(time.Hour)
		wantState(t, a, gauge, "failing", 1, 0)
		stop()
		wantState(t, a, gauge, "idle: the leader saves the archives", 0, 0)
	})
}

func TestStatus_OfAProgramHasItsOutput(t *testing.T) {
	a := program(t, "cat >/dev/null; echo no such bucket; exit 3")
	a.status.begin(time.Now(), time.Time{})
	err := a.saveOne(t.Context(), time.Now())
	if err == nil {
		t.Fatal("the program has not failed")
	}
	a.status.failed(err)
	got := a.Stats()
	if got["state"] != "failing" || !strings.Contains(got["error"], "exit status 3: no such bucket") {
		t.Errorf("got %v", got)
	}
}

// TestStatus_OfANewClusterIsNotOverdue: the first archive has two periods, as each later one has.
func TestStatus_OfANewClusterIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := program(t, "exit 1")
		a.status.begin(time.Time{}, time.Time{})
		if got := a.Stats(); got["state"] != "ok" || got["newest"] != "none known" {
			t.Errorf("at the begin: got %v", got)
		}
		time.Sleep(2*a.settings.Every + 1)
		if got := a.Stats(); got["state"] != "overdue" {
			t.Errorf("after two periods: got %v", got)
		}
	})
}

func TestStatus_IsOffWithoutASchedule(t *testing.T) {
	got := New(DefaultSettings(), save, hclog.NewNullLogger()).Stats()
	if got["state"] != "off" || len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// TestStatus_KnowsTheArchivesOfADirectory: a new leader tells of the one that a former leader has left there.
func TestStatus_KnowsTheArchivesOfADirectory(t *testing.T) {
	settings := toDirectory(t)
	defer forget(t)
	synctest.Test(t, func(t *testing.T) {
		_ = figures(t)
		time.Sleep(7 * time.Minute)
		made := time.Now()
		kit.Must(t, os.MkdirAll(settings.Directory, 0o700))
		kit.Must(t, os.WriteFile(filepath.Join(settings.Directory, nameOf(made, false)), nil, 0o600))
		a := New(settings, save, hclog.NewNullLogger())
		defer run(a)()
		time.Sleep(time.Minute)
		if got := a.Stats(); got["newest"] != made.UTC().Format(time.RFC3339) {
			t.Errorf("got %v, want the archive of %s", got, made)
		}
	})
}

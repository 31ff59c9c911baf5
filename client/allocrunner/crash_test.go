package allocrunner

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/hooks"
	"berth/structs"
)

// crash is the state of the machine at one point of an agent's life, as if the agent was killed there.
type crash struct {
	point string
	fx    *fixture
}

// crashPoints runs a life and keeps the state of the machine, with the store, before and after each change.
func crashPoints(t *testing.T, life func(t *testing.T, fx *fixture)) []crash {
	var all []crash
	var mu sync.Mutex // a start begins beside the hooks
	outer := t
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		keep := func(point string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, crash{point, fx.clone(outer)})
		}
		fx.after = func(p string) { keep("after " + p) }
		fx.machine.After = func(p string) { keep("after " + p) }
		fx.machine.Before = func(p string) error { keep("before " + p); return nil }
		life(t, fx)
	})
	return all
}

// clone copies the state that a killed agent leaves, for the test t.
func (fx *fixture) clone(t *testing.T) *fixture {
	dir := t.TempDir()
	src, err := os.Open(filepath.Join(fx.dir, "client.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(dir, "client.db"),
		os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return &fixture{
		t:       t,
		dir:     dir,
		machine: fx.machine.Clone(),
		up:      maps.Clone(fx.up),
		fail:    map[string]func() error{},
	}
}

// TestRestore_AfterAKillAtAnyPoint kills the agent between every record, act and mark of a whole life.
// Another agent recovers the tasks: it does not start a running process again, and leaves no ended one. After
// the allocation is stopped nothing is left.
func TestRestore_AfterAKillAtAnyPoint(t *testing.T) {
	all := crashPoints(t, func(t *testing.T, fx *fixture) {
		a := fx.agent()
		a.allocs[1].setup = func(env *hooks.AllocEnv) {
			env.NearlyUp()
			time.Sleep(time.Second) // meanwhile the start begins
		}
		r := a.new(testAlloc("web"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1)) // and again, by the policy
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
		a.stop()
	})
	prepared := slices.IndexFunc(all, func(c crash) bool { return c.point == "after prepare alloc1/web" })
	if len(all) < 17 || prepared < 0 {
		t.Fatalf("only %d points, prepared at %d", len(all), prepared)
	}
	for i, c := range all {
		t.Run(fmt.Sprintf("%02d %s", i, strings.ReplaceAll(c.point, "/", "-")), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { checkAfterCrash(t, c.fx) })
		})
	}
}

func checkAfterCrash(t *testing.T, fx *fixture) {
	fx.t, fx.machine = t, fx.machine.Clone() // its channels belong to this test's time
	before := fx.machine.Task("alloc1/web")
	ran := len(fx.machine.Running()) == 1
	a := fx.agent()
	defer a.stop()
	rs := a.restore()
	if len(rs) == 0 {
		if len(fx.machine.Held()) > 0 || hooksLeft(fx) != "" {
			t.Errorf("nothing on record, but left are %v, %s", fx.machine.Held(), hooksLeft(fx))
		}
		return
	}
	synctest.Wait()
	if got := fx.machine.Task("alloc1/web"); got.Starts != before.Starts {
		t.Errorf("started before the servers were contacted: %d starts, were %d", got.Starts, before.Starts)
	}
	if ran && len(fx.machine.Running()) != 1 &&
		rs[0].ClientState().ClientStatus == structs.AllocRunning {
		t.Error("a running process was lost")
	}
	close(a.contacted)
	time.Sleep(time.Minute)
	synctest.Wait()
	if ran {
		if got := fx.machine.Task("alloc1/web"); got.Starts != before.Starts {
			t.Errorf("a running process was restarted: %d starts, were %d", got.Starts, before.Starts)
		}
	}
	rs[0].Destroy()
	<-rs[0].Reached(lifecycle.Ended)
	if len(fx.machine.Held()) > 0 || hooksLeft(fx) != "" {
		t.Errorf("left: %v, %s; machine %v", fx.machine.Held(),
			hooksLeft(fx), fx.machine.Log())
	}
	saved, err := Saved(a.db)
	if err != nil || len(saved) > 0 || exists(rs[0].Dir()) {
		t.Errorf("records left: %v, %v", saved, err)
	}
	conflict := slices.ContainsFunc(a.last().TaskStates["web"].Events, func(e *structs.TaskEvent) bool {
		return strings.Contains(e.Message, "twice")
	})
	if conflict {
		t.Error("a task was started beside the remains of its last run")
	}
}

package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"berth/client/hooks"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

var oldFiles = map[string]string{
	"alloc/data/log":    "one",
	"alloc/data/d/e":    "two",
	"web/local/config":  "three",
	"gone/local/config": "four",
	"alloc/logs/web.0":  "five",
	"web/secrets/token": "six",
}

var movedFiles = map[string]string{
	"alloc/data/log":   "one",
	"alloc/data/d/e":   "two",
	"web/local/config": "three",
}

// twoOnOneNode returns a node with an ended allocation, a, and its successor b.
func twoOnOneNode(t *testing.T) *node {
	n := newCluster(t).addNode("n1")
	n.place("a", "", group(false, "web", "gone"))
	n.write("a", oldFiles)
	n.place("b", "a", group(false, "web", "new"))
	return n
}

func TestNew_IsNilWithoutData(t *testing.T) {
	for name, c := range map[string]struct {
		disk     *structs.EphemeralDisk
		previous string
		want     bool
	}{
		"sticky":              {&structs.EphemeralDisk{Sticky: true}, "a", true},
		"the first":           {&structs.EphemeralDisk{Sticky: true}, "", false},
		"not sticky":          {&structs.EphemeralDisk{Migrate: true}, "a", false},
		"without description": {nil, "a", false},
	} {
		env := &hooks.AllocEnv{
			Alloc: &structs.Allocation{ID: "b", PreviousAllocation: c.previous},
			Group: &structs.TaskGroup{EphemeralDisk: c.disk},
		}
		if got := New(env, Config{}) != nil; got != c.want {
			t.Errorf("%s: has a hook: %v", name, got)
		}
	}
}

func TestUp_MovesDataOnOneNodeOnce(t *testing.T) {
	n := twoOnOneNode(t)
	n.up("b")
	n.expect("b", movedFiles)
	if len(n.events) > 0 {
		t.Errorf("events %q", n.events)
	}
	// A late write of the earlier allocation does not come after it.
	n.write("a", map[string]string{"web/local/late": "x"})
	kit.Must(t, os.RemoveAll(filepath.Join(n.dir, "b", "web/local")))
	n.make("b/web/local")
	n.up("b")
	n.expect("b", map[string]string{"alloc/data/log": "one", "alloc/data/d/e": "two"})
}

func TestUp_WaitsForTheEndOfThePrevious(t *testing.T) {
	n := twoOnOneNode(t)
	synctest.Test(t, func(t *testing.T) {
		a := n.local["a"]
		ended := make(chan struct{})
		a.Unwound = ended
		n.local["a"] = a
		h, env := n.hook("b")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Up(ctx, env) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("at the end of the agent: %v", err)
		}
		if len(n.files("b")) > 0 {
			t.Fatalf("before the end it has %v", n.files("b"))
		}
		go func() { done <- h.Up(t.Context(), env) }()
		synctest.Wait()
		close(ended)
		kit.Must(t, <-done)
		wait := "b: waits for the end of allocation a, whose data it takes over"
		want := []string{wait, "b: ", wait, "b: "}
		if !slices.Equal(n.said, want) {
			t.Errorf("it said %q, want %q", n.said, want)
		}
	})
	n.expect("b", movedFiles)
}

func TestUp_GoesOnAfterACrashBetweenRenames(t *testing.T) {
	dirs := dataDirs(group(false, "web", "new"))
	for moved := range len(dirs) + 1 {
		t.Run(strconv.Itoa(moved), func(t *testing.T) {
			n := twoOnOneNode(t)
			kit.Must(t, moveDirs(n.local["a"].Dir, n.local["b"].Dir, dirs[:moved]))
			n.up("b")
			n.expect("b", movedFiles)
		})
	}
}

func TestUp_DoesNotReplaceADirectoryWithFiles(t *testing.T) {
	n := twoOnOneNode(t)
	n.write("b", map[string]string{"web/local/mine": "x"})
	h, env := n.hook("b")
	err := h.Up(t.Context(), env)
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v", err)
	}
	if Waits(env.Alloc, env.Dir) != "a" {
		t.Error("it no longer waits for its data")
	}
	if n.files("b")["web/local/mine"] != "x" || n.files("a")["web/local/config"] != "three" {
		t.Errorf("files are lost: %v and %v", n.files("a"), n.files("b"))
	}
}

func TestUp_FollowsNoLink(t *testing.T) {
	for _, link := range []string{"alloc", "alloc/data", "web", "web/local"} {
		t.Run(link, func(t *testing.T) {
			n := twoOnOneNode(t)
			host := t.TempDir()
			for _, dir := range []string{"data", "local"} {
				kit.Must(t, os.Mkdir(filepath.Join(host, dir), 0o755))
				kit.Must(t, os.WriteFile(filepath.Join(host, dir, "host"), nil, 0o600))
			}
			replaced := filepath.Join(n.dir, "a", link)
			kit.Must(t, os.RemoveAll(replaced))
			kit.Must(t, os.Symlink(host, replaced))
			n.up("b")
			for _, dir := range []string{"data", "local"} {
				if !exists(filepath.Join(host, dir, "host")) {
					t.Errorf("%s has been moved", dir)
				}
			}
			if got := n.files("b"); len(got) == 0 || len(got) > 2 {
				t.Errorf("it has %v", got)
			}
		})
	}
}

// An allocation that ended before it took over the data has no data, or a part. Its successor has all.
func TestUp_TakesFromAChain(t *testing.T) {
	dirs := dataDirs(group(false, "web", "new"))
	for moved := range len(dirs) {
		n := twoOnOneNode(t)
		kit.Must(t, moveDirs(n.local["a"].Dir, n.local["b"].Dir, dirs[:moved]))
		n.place("c", "b", group(false, "web"))
		n.place("d", "c", group(false, "web"))
		n.up("d")
		n.expect("d", movedFiles)
	}
}

func TestUp_OnAnotherNodeWithoutMigrate(t *testing.T) {
	n := newCluster(t).addNode("n1")
	n.place("b", "a", group(false, "web"))
	n.up("b")
	want := []string{"b: Starts with an empty disk: the data of allocation a is on another node, " +
		"and ephemeral_disk does not migrate"}
	if !slices.Equal(n.events, want) {
		t.Errorf("events %q", n.events)
	}
}

func TestUp_WaitsUntilTheNodeHasItsAllocations(t *testing.T) {
	n := twoOnOneNode(t)
	_, env := n.hook("b")
	c := n.config()
	c.Complete = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(env, c).Up(ctx, env); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	req := &nodecalls.AllocDataRequest{AllocID: "a"}
	if _, err := c.serve(ctx, req); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("the endpoint answers %v", err)
	}
	c = n.config()
	a := n.local["a"]
	a.Unwound = make(chan struct{})
	n.local["a"] = a
	if _, err := c.serve(ctx, req); !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("before the end of the allocation the endpoint answers %v", err)
	}
}

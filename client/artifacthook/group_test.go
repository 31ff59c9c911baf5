package artifacthook

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/internal/testskip"
)

// groupsLeft returns the cgroups of downloads of the fixture.
func (f *fixture) groupsLeft() []string {
	a := &artifacts{taskDir: filepath.Join(f.env.Dir, "web")}
	g := f.cfg.Groups.Machine.Path(groupParent, a.groupName())
	var left []string
	for _, dir := range append(slices.Collect(maps.Values(g.V1)), g.V2) {
		if _, err := os.Stat(dir); dir != "" && err == nil {
			left = append(left, dir)
		}
	}
	return left
}

func needGroups(t *testing.T, f *fixture, controller string) {
	t.Helper()
	m := f.cfg.Groups.Machine
	if err := m.Probe(groupParent); err != nil || m.Missing[controller] != "" {
		testskip.Lacking(t, "cgroups with the controller "+controller)
	}
}

func TestGroup_BoundsTheProcessesOfADownload(t *testing.T) {
	before := groupMemory
	groupMemory = 64 << 20
	t.Cleanup(func() { groupMemory = before })
	for _, c := range []struct{ do, with, controller, want string }{
		{"fork", "", cgroups.PIDs, "resource temporarily unavailable"},
		{"fill memory", strconv.Itoa(256 << 20), cgroups.Memory, "more than the 64 MiB of memory"},
	} {
		f := newFixture(t)
		needGroups(t, f, c.controller)
		f.cfg.Command = []string{os.Args[0], hostile}
		err := f.up(t.Context(), doing(c.do, c.with))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.do, err, c.want)
		}
		if left := f.groupsLeft(); len(left) > 0 {
			t.Errorf("%s: the groups %v are left", c.do, left)
		}
		f.checkUntouched()
	}
}

func TestGroup_IsGoneAfterADownload(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	held := make(chan []string, 1)
	f.mux.HandleFunc("/x", func(http.ResponseWriter, *http.Request) { held <- f.groupsLeft() })
	f.mustUp(artifact("${URL}/x"))
	if during := <-held; len(during) == 0 {
		t.Error("the download had no group")
	}
	if left := f.groupsLeft(); len(left) > 0 {
		t.Errorf("the groups %v are left", left)
	}
}

// An agent that was killed leaves a group.
func TestDown_RemovesTheGroupOfAKilledAgent(t *testing.T) {
	f := newFixture(t)
	needGroups(t, f, cgroups.Memory)
	a := &artifacts{cfg: f.cfg, taskDir: filepath.Join(f.env.Dir, "web")}
	_, err := f.cfg.Groups.Machine.New(groupParent, a.groupName(), cgroups.Limits{})
	if err != nil || len(f.groupsLeft()) == 0 {
		t.Fatalf("made the groups %v, %v", f.groupsLeft(), err)
	}
	f.env.Task.Artifacts = append(f.env.Task.Artifacts, artifact("http://x/y"))
	err = New(f.cfg, f.env.AllocEnv, f.env.Task).Down(t.Context())
	if left := f.groupsLeft(); err != nil || len(left) > 0 {
		t.Errorf("the groups %v are left, %v", left, err)
	}
}

func TestUp_DownloadsWithoutCgroups(t *testing.T) {
	f := newFixture(t)
	var logs bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &logs})
	f.cfg.Groups = &Groups{Machine: &cgroups.Machine{}, Logger: logger}
	f.file("x", []byte("x"))
	f.mustUp(artifact("${URL}/x"), artifact("${URL}/x"))
	if n := strings.Count(logs.String(), "have no cgroups"); n != 1 {
		t.Errorf("got %d lines about cgroups: %s", n, logs.String())
	}
}

func TestRemoveGroup_KeepsTheErrorOfTheDownload(t *testing.T) {
	if err := removeGroup(&cgroups.Group{}, unix.EIO); !errors.Is(err, unix.EIO) {
		t.Errorf("got %v", err)
	}
}

// All downloads together may not have more than a quarter of the memory, but two always run.
func TestSlots_FollowTheMemoryOfTheNode(t *testing.T) {
	for memory, want := range map[uint64]int64{
		1 << 30:   2,
		8 << 30:   2,
		16 << 30:  4,
		24 << 30:  6,
		512 << 30: 8,
	} {
		if got := slotsOf(memory); got != want {
			t.Errorf("%d GiB: got %d, want %d", memory>>30, got, want)
		}
	}
}

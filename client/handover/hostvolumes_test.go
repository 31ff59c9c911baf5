package handover

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"berth/client/config"
	"berth/client/csi/mounts"
	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

func envWith(requests ...*structs.VolumeRequest) *hooks.AllocEnv {
	g := &structs.TaskGroup{Volumes: map[string]*structs.VolumeRequest{}}
	for _, r := range requests {
		g.Volumes[r.Name] = r
	}
	return &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a"}, Group: g}
}

func TestHostVolumes_IsNilWithoutHostVolumes(t *testing.T) {
	env := envWith(&structs.VolumeRequest{Name: "d", Type: structs.VolumeTypeCSI})
	if HostVolumes(env, HostVolumesConfig{}) != nil {
		t.Error("a group without host volumes has a hook for them")
	}
}

func TestHostVolumes_GivesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		offered  *config.HostVolume
		readOnly bool
		want     string // the error
	}{
		{"for writing", &config.HostVolume{Path: dir}, false, ""},
		{"for reading", &config.HostVolume{Path: dir}, true, ""},
		{"a read-only one for reading", &config.HostVolume{Path: dir, ReadOnly: true}, true, ""},
		{"a read-only one for writing", &config.HostVolume{Path: dir, ReadOnly: true}, false, "is read-only"},
		{"none", nil, false, `has no host volume "data"`},
		{"a file", &config.HostVolume{Path: file}, false, "is not a directory"},
		{"a missing directory", &config.HostVolume{Path: dir + "/x"}, false, "no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := envWith(&structs.VolumeRequest{
				Name:     "d",
				Type:     structs.VolumeTypeHost,
				Source:   "data",
				ReadOnly: c.readOnly,
			})
			h := HostVolumes(env, HostVolumesConfig{
				Volume:   func(string) *config.HostVolume { return c.offered },
				Holder:   func(*structs.Allocation) string { return "" },
				Progress: func(string, string) {},
			})
			err := h.Up(t.Context(), env)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			m, ok := env.Volume("d")
			if ok != (err == nil) || ok && (m.HostPath != dir || m.ReadOnly != c.readOnly) {
				t.Errorf("the volume is %+v", m)
			}
			if err := h.Down(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHostVolumes_ReleaseTheFoldersOfTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	dir := t.TempDir()
	env := envWith(&structs.VolumeRequest{Name: "d", Type: structs.VolumeTypeHost, Source: "data"})
	h := HostVolumes(env, HostVolumesConfig{
		Volume:   func(string) *config.HostVolume { return &config.HostVolume{Path: dir} },
		Holder:   func(*structs.Allocation) string { return "" },
		Progress: func(string, string) {},
		Dir:      t.TempDir(),
	})
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	m, _ := env.Volume("d")
	at, err := m.Folders.Mount("web", "data/pg")
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(filepath.Join(dir, "data", "pg"))
	if mounted, rootErr := mounts.IsRoot(at); err != nil || rootErr != nil || !mounted {
		t.Errorf("mounted %v (%v, %v)", mounted, err, rootErr)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(at)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Down: %v", err)
	}
}

func TestHostVolumes_WaitsForTheEndOfAWriter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		env := envWith(&structs.VolumeRequest{Name: "d", Type: structs.VolumeTypeHost, Source: "data"})
		holders := []string{"b", ""}
		var said []string
		h := HostVolumes(env, HostVolumesConfig{
			Volume: func(string) *config.HostVolume { return &config.HostVolume{Path: dir} },
			Holder: func(*structs.Allocation) string {
				first := holders[0]
				holders = holders[1:]
				return first
			},
			Progress: func(id, reason string) { said = append(said, id+": "+reason) },
		})
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		want := []string{"a: waits for allocation b, which still holds one of its host volumes", "a: "}
		if !slices.Equal(said, want) {
			t.Errorf("it said %q, want %q", said, want)
		}
	})
}

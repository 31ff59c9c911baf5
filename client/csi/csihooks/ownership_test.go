package csihooks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// ownedEnv is an allocation with a volume that is given to a user and a group.
func ownedEnv(allocID string) *hooks.AllocEnv {
	e := allocEnv(allocID, map[string]string{"one": "data"})
	e.Group.Volumes["one"].Ownership = &structs.VolumeOwnership{
		Owner: "4711",
		Group: "4712",
		Mode:  "0750",
	}
	return e
}

// ownerOf returns the numbers of the user and the group of a file.
func ownerOf(t *testing.T, path string) [2]uint32 {
	t.Helper()
	var st unix.Stat_t
	kit.Must(t, unix.Lstat(path, &st))
	return [2]uint32{st.Uid, st.Gid}
}

// volumeDir returns the directory in which the plugin has the volume of ownedEnv, with a file.
func volumeDir(t *testing.T, p *csitest.Plugin) (dir, file string) {
	t.Helper()
	dir = filepath.Join(p.Dir(), "ext-data")
	file = filepath.Join(dir, "file")
	kit.Must(t, os.MkdirAll(dir, 0o755))
	kit.Must(t, os.WriteFile(file, nil, 0o644))
	return dir, file
}

func TestVolumes_AreGivenToTheWantedOwnerBeforeTheTasksStart(t *testing.T) {
	r := newFixture(t)
	dir, file := volumeDir(t, r.plugin("ebs"))
	e := ownedEnv("a1")
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	want := [2]uint32{4711, 4712}
	if ownerOf(t, dir) != want || ownerOf(t, file) != want {
		t.Errorf("owners %v and %v, want %v", ownerOf(t, dir), ownerOf(t, file), want)
	}

	// An agent that restarts beside running tasks leaves their files alone.
	kit.Must(t, os.Chown(dir, 0, 0))
	e.Running = func() bool { return true }
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	if got := ownerOf(t, dir); got != [2]uint32{} {
		t.Errorf("beside a running task the owner became %v", got)
	}
	// Without running tasks it repeats a change that was interrupted.
	e.Running = func() bool { return false }
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	if got := ownerOf(t, dir); got != want {
		t.Errorf("after an interruption the owner is %v", got)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// The tasks of the allocation make an event of the note.
func TestVolumes_NoteTheFilesThatKeepTheirOwner(t *testing.T) {
	r := newFixture(t)
	_, file := volumeDir(t, r.plugin("ebs"))
	kit.Must(t, unix.Chmod(file, 0o4755))
	e := ownedEnv("a1")
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	m, _ := e.Volume("one")
	if m.Note != "file keeps its owner: it has a setuid or setgid bit" || ownerOf(t, file) != [2]uint32{} {
		t.Errorf("the note is %q, the owner %v", m.Note, ownerOf(t, file))
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// A folder that a volume lacks gets the owner of the volume, and Down unmounts it before the volume.
func TestVolumes_MountFoldersAndReleaseThem(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	dir, _ := volumeDir(t, p)
	e := ownedEnv("a1")
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	m, _ := e.Volume("one")
	at, err := m.Folders.Mount("web", "data/pg")
	kit.Must(t, err)
	kit.Must(t, os.WriteFile(filepath.Join(at, "written"), nil, 0o644))
	folder := filepath.Join(dir, "data", "pg")
	_, err = os.Stat(filepath.Join(folder, "written"))
	kit.Must(t, err)
	if got := ownerOf(t, folder); got != [2]uint32{4711, 4712} {
		t.Errorf("the new folder has the owner %v", got)
	}
	// The servers see the mount, and another allocation's end does not take it for a lost one.
	k := volumes.VolumeKey{Namespace: "default", ID: "data"}
	has, err := r.m.Volumes().Presence(k)
	kit.Must(t, err)
	if !slices.Contains(has.Mounts, at) {
		t.Errorf("the mounts of the volume are %q", has.Mounts)
	}
	ended := func(string) bool { return false }
	kit.Must(t, r.m.Volumes().Detach(r.ctx(), volumes.Detachment{
		VolumeKey: k, AllocID: "other", Running: ended,
	}))
	kit.Must(t, h.Down(r.ctx()))
	if _, err := os.Stat(filepath.Join(folder, "written")); err != nil {
		t.Errorf("after the release: %v", err)
	}
	r.clean()
}

func TestVolumes_MakeNoFolderInAVolumeThatIsRead(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"one": "data"})
	e.Group.Volumes["one"].ReadOnly = true
	e.Group.Volumes["one"].AccessMode = structs.CSIMultiNodeReader
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	m, _ := e.Volume("one")
	_, err := m.Folders.Mount("web", "data")
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v", err)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_KeepTheirOwnerByPolicy(t *testing.T) {
	r := newFixture(t)
	dir, _ := volumeDir(t, r.plugin("ebs"))
	e := ownedEnv("a1")
	e.Group.Volumes["one"].Ownership.Policy = structs.OwnershipNever
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if got := ownerOf(t, dir); got != [2]uint32{} {
		t.Errorf("owner %v", got)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_NameAnOwnerThatTheNodeDoesNotKnow(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	e := ownedEnv("a1")
	e.Group.Volumes["one"].Ownership.Owner = "no-such-user"
	h := r.volumes(e)
	err := h.Up(r.ctx(), e)
	if !structs.IsKind(err, structs.KindInvalid) ||
		!strings.Contains(err.Error(), `volume default/data: owner "no-such-user"`) {
		t.Errorf("got %v", err)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_RejectOneVolumeWithTwoOwners(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	e := ownedEnv("a1")
	other := *e.Group.Volumes["one"]
	other.Ownership = &structs.VolumeOwnership{Owner: "4713"}
	e.Group.Volumes["two"] = &other
	err := r.volumes(e).Up(r.ctx(), e)
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "in different modes") {
		t.Errorf("got %v", err)
	}
}

// A plugin with VOLUME_MOUNT_GROUP has the group in each call, and gives the files to it.
func TestDuty_VolumeMountGroup_IsLeftToThePluginThatHasIt(t *testing.T) {
	r := newFixture(t)
	r.nodeCaps = []string{"STAGE_UNSTAGE_VOLUME", "VOLUME_MOUNT_GROUP"}
	p := r.plugin("ebs")
	dir, file := volumeDir(t, p)
	e := ownedEnv("a1")
	cfg := r.config()
	cfg.MountsGroup = func(plugin string) bool { return plugin == "ebs" }
	h := NewVolumes(cfg, e)
	kit.Must(t, h.Up(r.ctx(), e))
	calls := p.Calls("NodeStageVolume", "NodePublishVolume")
	for _, c := range calls {
		if got := c.Get("volume_capability.mount.volume_mount_group"); got != "4712" {
			t.Errorf("%s has the group %q", c.RPC, got)
		}
	}
	if len(calls) != 2 {
		t.Errorf("%d calls", len(calls))
	}
	for _, path := range []string{dir, file} {
		if got := ownerOf(t, path); got != [2]uint32{4711, 0} {
			t.Errorf("%s has %v: the node changes the user alone", path, got)
		}
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

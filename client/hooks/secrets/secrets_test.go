package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/allocrunner/taskdirs"
	"berth/client/csi/mounts"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/test/kit"
)

// fixture is an allocation with the tasks web and db.
type fixture struct {
	t       *testing.T
	env     *hooks.AllocEnv
	log     strings.Builder
	running bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root, err := mounts.Resolve(filepath.Join(t.TempDir(), "a1"))
	kit.Must(t, err)
	fx := &fixture{t: t}
	fx.env = &hooks.AllocEnv{
		Alloc:   &structs.Allocation{ID: "a1"},
		Group:   &structs.TaskGroup{Tasks: []*structs.Task{{Name: "web"}, {Name: "db"}}},
		Dir:     root,
		Running: func() bool { return fx.running },
	}
	for _, task := range []string{"web", "db"} {
		kit.Must(t, os.MkdirAll(fx.dir(task), 0o700))
	}
	t.Cleanup(func() {
		for _, task := range []string{"web", "db"} {
			for unix.Unmount(fx.dir(task), unix.MNT_DETACH) == nil {
			}
		}
	})
	return fx
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the hook mounts")
	}
}

func (fx *fixture) dir(task string) string { return taskdirs.Secrets(fx.env.Dir, task) }

func (fx *fixture) path(task, file string) string { return filepath.Join(fx.dir(task), file) }

// agent returns the hook of a new process of the agent.
func (fx *fixture) agent(sizeMB int) hooks.Alloc {
	logger := hclog.New(&hclog.LoggerOptions{Output: &fx.log})
	return NewMounter(sizeMB, logger).Hook(fx.env)
}

func (fx *fixture) mustUp() {
	fx.t.Helper()
	kit.Must(fx.t, fx.agent(1).Up(fx.t.Context(), fx.env))
}

func (fx *fixture) mustDown() {
	fx.t.Helper()
	kit.Must(fx.t, fx.agent(1).Down(fx.t.Context()))
}

// mounted returns the mounts of the allocation, relative to its directory.
func (fx *fixture) mounted() string {
	fx.t.Helper()
	table, err := mounts.Read()
	kit.Must(fx.t, err)
	var found []string
	for _, m := range table.Below(fx.env.Dir) {
		rel, err := filepath.Rel(fx.env.Dir, m)
		kit.Must(fx.t, err)
		found = append(found, rel)
	}
	return strings.Join(found, " ")
}

func (fx *fixture) checkMounted(want string) {
	fx.t.Helper()
	if got := fx.mounted(); got != want {
		fx.t.Errorf("mounted is %q, want %q", got, want)
	}
}

func TestUp_KeepsSecretsInMemory(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	fx.mustUp()
	fx.checkMounted("web/secrets db/secrets")
	info, err := os.Stat(fx.dir("web"))
	kit.Must(t, err)
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the directory is %v", info.Mode())
	}
	var st unix.Statfs_t
	kit.Must(t, unix.Statfs(fx.dir("web"), &st))
	const flags = unix.ST_NOEXEC | unix.ST_NOSUID | unix.ST_NODEV
	if st.Flags&flags != flags || st.Type != unix.TMPFS_MAGIC {
		t.Errorf("the file system has the flags %x and the type %x", st.Flags, st.Type)
	}
	if st.Files != 1024 {
		t.Errorf("there is capacity for %d files", st.Files)
	}
	err = os.WriteFile(fx.path("web", "large"), make([]byte, 1<<20+1), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("more than 1 MiB: %v", err)
	}
	fx.mustDown()
	fx.checkMounted("")
	if _, err := os.Stat(fx.path("web", "large")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a secret is left on the disk: %v", err)
	}
}

// The next agent finds the secrets of the one before, which may have been killed between any two steps.
func TestUp_ContinuesForAnAgentThatWasKilled(t *testing.T) {
	needRoot(t)
	for mountsBefore := range 3 {
		t.Run(fmt.Sprint(mountsBefore), func(t *testing.T) {
			fx := newFixture(t)
			for _, task := range []string{"web", "db"}[:mountsBefore] {
				kit.Must(t, mounts.Tmpfs{Source: source, SizeMB: 1}.Mount(fx.dir(task)))
				kit.Must(t, os.WriteFile(fx.path(task, "token"), []byte(task), 0o600))
			}
			fx.mustUp()
			fx.running = true // the agents after that find a task that runs
			fx.mustUp()
			fx.checkMounted("web/secrets db/secrets")
			for _, task := range []string{"web", "db"}[:mountsBefore] {
				got, err := os.ReadFile(fx.path(task, "token"))
				if err != nil || string(got) != task {
					t.Errorf("the secret of %s is %q, %v", task, got, err)
				}
			}
			kit.Must(t, unix.Unmount(fx.dir("web"), 0)) // killed in a Down
			fx.mustDown()
			fx.mustDown()
			fx.checkMounted("")
		})
	}
}

func TestUp_LeavesTheSecretsOfAnEarlierVersion(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	kit.Must(t, os.WriteFile(fx.path("web", "token"), []byte("old"), 0o600))
	fx.mustUp()
	fx.checkMounted("db/secrets") // nothing was in it
	got, err := os.ReadFile(fx.path("web", "token"))
	if err != nil || string(got) != "old" {
		t.Errorf("the secret is %q, %v", got, err)
	}
	fx.mustDown()

	running := newFixture(t) // a task with an empty directory, which a mount would hide from the agent
	running.running = true
	running.mustUp()
	running.checkMounted("")
	running.mustDown()
}

func TestUp_StaysOnDiskWithSize0(t *testing.T) {
	fx := newFixture(t)
	kit.Must(t, fx.agent(0).Up(t.Context(), fx.env))
	fx.checkMounted("")
}

// An agent without the right to mount says so once, and the allocation runs.
func TestUp_StaysOnDiskWithoutRights(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	logger := hclog.New(&hclog.LoggerOptions{Output: &fx.log})
	m := NewMounter(1, logger)
	withoutRights(t, func() {
		for range 2 {
			kit.Must(t, m.Hook(fx.env).Up(t.Context(), fx.env))
		}
	})
	fx.checkMounted("")
	if n := strings.Count(fx.log.String(), "the secrets of tasks stay on disk"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &fx.log)
	}
	fx.mustDown()
}

// withoutRights runs f on a thread without CAP_SYS_ADMIN.
func withoutRights(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- dropMountRights() // the thread ends with the goroutine
		f()
		close(done)
	}()
	kit.Must(t, <-done)
	<-done
}

func TestDown_LeavesMountsOfOthers(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	fx.mustUp()
	inner := fx.path("web", "inner")
	kit.Must(t, os.Mkdir(inner, 0o700))
	kit.Must(t, unix.Mount("other", inner, "tmpfs", 0, "size=64k"))
	err := fx.agent(1).Down(t.Context())
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("with a mount below: %v", err)
	}
	fx.checkMounted("web/secrets web/secrets/inner") // the other task's is gone
	kit.Must(t, unix.Unmount(inner, 0))
	kit.Must(t, unix.Mount("other", fx.dir("db"), "tmpfs", 0, "size=64k"))
	err = fx.agent(1).Down(t.Context())
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("with another mount in its place: %v", err)
	}
	kit.Must(t, unix.Unmount(fx.dir("db"), 0))
	fx.mustDown()
}

func TestDown_DoesNotWaitForOpenFiles(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	fx.mustUp()
	f, err := os.Create(fx.path("web", "open"))
	kit.Must(t, err)
	fx.mustDown()
	fx.checkMounted("")
	kit.Must(t, f.Close())
}

func TestDown_WithoutADirectory(t *testing.T) {
	fx := newFixture(t)
	kit.Must(t, os.RemoveAll(fx.env.Dir))
	fx.mustDown()
}

func TestUp_FollowsNoLink(t *testing.T) {
	needRoot(t)
	fx := newFixture(t)
	elsewhere := t.TempDir()
	kit.Must(t, os.Remove(fx.dir("web")))
	kit.Must(t, os.Symlink(elsewhere, fx.dir("web")))
	if err := fx.agent(1).Up(t.Context(), fx.env); err == nil {
		t.Error("mounted through a symbolic link")
	}
	fx.checkMounted("")
	if err := (mounts.Tmpfs{Source: source, SizeMB: 1}).Mount(fx.dir("web")); err == nil {
		t.Error("mounted on a symbolic link")
	}
}

func TestFiles_StayAmongTheSecrets(t *testing.T) {
	fx := newFixture(t)
	dirs := driver.Dirs{Task: filepath.Join(fx.env.Dir, "web"), Secrets: fx.dir("web")}
	if _, err := Read(dirs, driver.SITokenFile, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	kit.Must(t, Write(dirs, driver.SITokenFile, "token"))
	got, err := Read(dirs, driver.SITokenFile, 10)
	if err != nil || got != "token" {
		t.Errorf("got %q, %v", got, err)
	}
	info, err := os.Stat(fx.path("web", driver.SITokenFile))
	if err != nil || info.Mode() != 0o440 {
		t.Errorf("the file is %v, %v", info, err)
	}
	for range 2 {
		kit.Must(t, Remove(dirs, driver.SITokenFile))
	}
	kit.Must(t, os.Remove(fx.dir("web")))
	kit.Must(t, os.Symlink(t.TempDir(), fx.dir("web")))
	if err := Write(dirs, driver.SITokenFile, "token"); err == nil {
		t.Error("wrote through a symbolic link")
	}
}

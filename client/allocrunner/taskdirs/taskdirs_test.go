package taskdirs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

// stranger is a user of the machine without tasks. On most machines its name is nobody.
var stranger = &syscall.Credential{Uid: 65534, Gid: 65534}

// runAs runs a program as a user.
func runAs(path string, user *syscall.Credential) error {
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	return cmd.Run()
}

// setUIDProgram writes a program that runs as its owner to a directory.
func setUIDProgram(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "left-behind")
	if err := errors.Join(os.WriteFile(path, b, 0o755), os.Chmod(path, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	return path
}

// openDir is a directory that every user of the machine can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// groupOf is a task group with the tasks named.
func groupOf(tasks ...string) *structs.TaskGroup {
	g := &structs.TaskGroup{Name: "g"}
	for _, name := range tasks {
		g.Tasks = append(g.Tasks, &structs.Task{Name: name, Driver: "fake"})
	}
	return g
}

func TestDirs_AreClosedToOtherUsersOfTheMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to run programs as other users")
	}
	g := groupOf("web", "job")
	g.Tasks[0].User = "daemon"
	root := filepath.Join(openDir(t), "alloc1")
	if err := Make(root, g); err != nil {
		t.Fatal(err)
	}
	err := runAs(setUIDProgram(t, filepath.Dir(root)), stranger)
	if err != nil {
		t.Fatalf("the program does not run outside the directory either: %v", err)
	}
	for _, dir := range []string{"alloc/data", "alloc/tmp", "web/local", "web/tmp", "web/secrets", "job/local"} {
		path := setUIDProgram(t, filepath.Join(root, dir))
		if err := runAs(path, stranger); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("another user ran the program in %s: %v", dir, err)
		}
	}
}

// A task has put something else in the place of its logs, and the agent restarts.
func TestDirs_MakeTheLogsAgain(t *testing.T) {
	root, host := t.TempDir(), t.TempDir()
	g := groupOf("web")
	logs := Logs(root)
	for name, replace := range map[string]func() error{
		"nothing": func() error { return nil },
		"a link":  func() error { return os.Symlink(host, logs) },
		"a file":  func() error { return os.WriteFile(logs, nil, 0o600) },
	} {
		err := errors.Join(Make(root, g), os.Remove(logs), replace(), Make(root, g))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(logs)
		if err != nil || info.Mode() != 0o755|os.ModeDir {
			t.Errorf("%s: the directory is %v, %v", name, info, err)
		}
	}
	if left, err := os.ReadDir(host); err != nil || len(left) > 0 {
		t.Errorf("the host's directory has %v, %v", left, err)
	}
}

// A task has put something else in the place of shared data, and the agent restarts.
func TestDirs_NameAReplacedDirectoryWithoutThePathOfTheNode(t *testing.T) {
	root := t.TempDir()
	host := t.TempDir()
	g := groupOf("web")
	data := filepath.Join(root, "alloc", "data")
	for name, replace := range map[string]func() error{
		"a link":          func() error { return os.Symlink(host, data) },
		"a dangling link": func() error { return os.Symlink("/none", data) },
		"a file":          func() error { return os.WriteFile(data, nil, 0o600) },
	} {
		err := errors.Join(Make(root, g), os.Remove(data), replace())
		if err != nil {
			t.Fatal(err)
		}
		err = Make(root, g)
		if !structs.IsKind(err, structs.KindPrecondition) ||
			!strings.Contains(err.Error(), " alloc/data is not") ||
			strings.Contains(err.Error(), root) {
			t.Errorf("%s: got %v", name, err)
		}
		if err := os.Remove(data); err != nil {
			t.Fatal(err)
		}
	}
}

// A task without its own root reaches its directories by the paths of the host, and its driver opens them.
// They stay open, and the directories of other tasks stay closed.
func TestDirs_OpenForTheUserOfARootlessTask(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root to run programs as other users")
	}
	g := groupOf("web", "raw")
	g.Tasks[1].Driver, g.Tasks[1].User = "raw_exec", "daemon"
	root := filepath.Join(openDir(t), "alloc1")
	for _, step := range []func() error{ // the second time as after a restart of the agent
		func() error {
			return errors.Join(Make(root, g),
				openTo(root, 1), openTo(root+"/raw", 1))
		},
		func() error { return Make(root, g) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		daemon := &syscall.Credential{Uid: 1, Gid: 1}
		for dir, want := range map[string]error{
			"raw/local": nil, "alloc/data": nil, "web/local": fs.ErrPermission,
		} {
			err := runAs(setUIDProgram(t, filepath.Join(root, dir)), daemon)
			if !errors.Is(err, want) {
				t.Errorf("the task's user ran the program in %s: %v, want %v", dir, err, want)
			}
		}
		for _, dir := range []string{"raw/local", "alloc/data"} {
			err := runAs(filepath.Join(root, dir, "left-behind"), stranger)
			if !errors.Is(err, fs.ErrPermission) {
				t.Errorf("another user ran the program in %s: %v", dir, err)
			}
		}
	}
}

// openTo opens a directory to a group, as drivers without roots do.
func openTo(dir string, gid int) error {
	return errors.Join(os.Chown(dir, 0, gid), os.Chmod(dir, 0o710))
}

func TestDirs_StayClosedForARootlessTaskOfRoot(t *testing.T) {
	g := groupOf("raw")
	g.Tasks[0].Driver = "raw_exec"
	if mode := layout("/a", g)["/a"].FileMode; mode != 0o700 {
		t.Errorf("the allocation's directory has the mode %v", mode)
	}
}

// A task may replace entries of its writable directories. The agent creates them again as root, and must not
// reach beyond them.
func TestDirs_RejectALinkInPlaceOfADirectory(t *testing.T) {
	root, host := t.TempDir(), t.TempDir()
	g := groupOf("web")
	if err := Make(root, g); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(host, 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "alloc", "data")
	for _, in := range []func() error{
		func() error { return os.Symlink(host, data) },
		func() error { return os.Symlink(filepath.Join(host, "new"), data) },
		func() error { return os.WriteFile(data, nil, 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(data), in()); err != nil {
			t.Fatal(err)
		}
		if err := Make(root, g); err == nil {
			t.Error("Make accepted something other than a directory")
		}
	}
	info, err := os.Stat(host)
	if err != nil || info.Mode().Perm() != 0o700 ||
		exists(filepath.Join(host, "new")) {
		t.Errorf("the host's directory is %v now", info.Mode())
	}
}

// bindInto mounts a directory over dir and unmounts it at the end of the test.
func bindInto(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root to mount")
	}
	err := unix.Mount(t.TempDir(), dir, "", unix.MS_BIND, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestDirs_AreNotRemovedThroughAMount(t *testing.T) {
	root := t.TempDir()
	err := Make(root, groupOf("web"))
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"web/local": 0o755, "web/tmp": 0o755, "web/secrets": 0o700,
		"alloc/tmp": 0o777, "alloc/data": 0o777} {
		if st, err := os.Stat(filepath.Join(root, path)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, st, err)
		}
	}
	bindInto(t, filepath.Join(root, "web", "local"))
	if err := Remove(root); !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "web/local") {
		t.Errorf("got %v, want precondition that names the mount", err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

package sandbox

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"berth/client/drivers/driver"
	"berth/test/kit"
)

func TestGive_GivesTheFilesOfTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it changes owners")
	}
	task := t.TempDir()
	dirs := driver.Dirs{
		Task:    task,
		Local:   filepath.Join(task, "local"),
		Secrets: filepath.Join(task, "secrets"),
	}
	host := filepath.Join(task, "of-the-host")
	token := filepath.Join(dirs.Secrets, driver.SITokenFile)
	bootstrap := filepath.Join(dirs.Secrets, driver.EnvoyBootstrapFile)
	other := filepath.Join(dirs.Secrets, "other")
	mustDo(t, os.Mkdir(dirs.Local, 0o700), os.Mkdir(dirs.Secrets, 0o700),
		os.WriteFile(token, nil, 0o440), os.WriteFile(other, nil, 0o440), os.WriteFile(host, nil, 0o440))
	jwt := filepath.Join(dirs.Local, "sub", "jwt")
	dirs.Tokens = []string{"local/sub/jwt", "local/none/jwt"}
	mustDo(t, os.Mkdir(filepath.Dir(jwt), 0o755), os.WriteFile(jwt, nil, 0o600))
	give := func() {
		t.Helper()
		mustDo(t, GiveTaskDirs(dirs, &User{UID: 1234, GID: 5678}, OwnTmp))
	}
	give() // one of both files is there
	checkOwner(t, token, 1234, 5678, 0o440)
	checkOwner(t, jwt, 1234, 5678, 0o600)
	checkOwner(t, other, 0, 0, 0o440)

	mustDo(t, os.Remove(token), os.Symlink(host, token), os.Link(host, bootstrap))
	give() // the task has put links to a file of the host in their place
	checkOwner(t, host, 0, 0, 0o440)
	mustDo(t, os.Remove(token), os.Remove(bootstrap), os.Mkdir(token, 0o700), syscall.Mkfifo(bootstrap, 0o600))
	give()
	mustDo(t, os.Remove(token), os.Remove(bootstrap), os.WriteFile(bootstrap, nil, 0o440))
	mustDo(t, OpenSecretFiles(dirs))
	checkOwner(t, bootstrap, 0, 0, 0o444)
}

// A task whose driver shows it the directory above can replace the directory of its secrets.
func TestGive_ChangesNoFileOfAnotherTask(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it changes owners")
	}
	alloc := t.TempDir()
	task := filepath.Join(alloc, "web")
	other := filepath.Join(alloc, "db", "secrets")
	token := filepath.Join(other, driver.SITokenFile)
	dirs := driver.Dirs{
		Task:    task,
		Local:   filepath.Join(task, "local"),
		Secrets: filepath.Join(task, "secrets"),
	}
	mustDo(t, os.MkdirAll(dirs.Local, 0o700), os.MkdirAll(other, 0o700),
		os.WriteFile(token, nil, 0o440), os.Symlink(other, dirs.Secrets))
	if err := GiveTaskDirs(dirs, &User{UID: 1234, GID: 5678}, OwnTmp); err == nil {
		t.Error("a task got its directories with a link in the place of one")
	}
	if err := OpenSecretFiles(dirs); err == nil {
		t.Error("the files behind a link were opened")
	}
	checkOwner(t, token, 0, 0, 0o440)
}

func mustDo(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkOwner(t *testing.T, path string, uid, gid uint32, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != uid || st.Gid != gid || info.Mode() != mode {
		t.Errorf("%s is of %d:%d with mode %v, want %d:%d with %v",
			filepath.Base(path), st.Uid, st.Gid, info.Mode(), uid, gid, mode)
	}
}

package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// ownerOf is the owner and the mode of a file, as "uid:gid mode".
func ownerOf(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777)
}

// spyingAlloc is a group of two tasks of different users with one group. The first has a secret file and
// changes the mode of its local directory. The second lists in the shared directory the parts of these that
// it can see.
func spyingAlloc(driver string) *structs.Allocation {
	const wait = "; while :; do sleep 0.1; done"
	a := execAlloc("a1", `cd $NOMAD_TASK_DIR && echo public > file && chmod 750 . &&
		echo key > $NOMAD_SECRETS_DIR/key && touch $NOMAD_ALLOC_DIR/data/made`+wait)
	web := a.Job.TaskGroups[0].Tasks[0]
	web.Driver, web.User = driver, "4321:1234"
	spy := *web
	spy.Name, spy.User = "spy", "4322:1234"
	spy.Config = map[string]any{
		"command": "/bin/sh",
		"args": []any{"-c", `
		until [ -e $NOMAD_ALLOC_DIR/data/made ]; do sleep 0.05; done
		web=$NOMAD_TASK_DIR/../../web; [ -d $web ] || web=$NOMAD_ALLOC_DIR/../web
		look() {
			cat $web/local/file
			touch $web/local/mine && echo wrote local
			touch $web/tmp/mine && echo wrote tmp
			touch $web/mine && echo wrote beside
			ls $web/secrets && echo listed
			cat $web/secrets/key
			touch $NOMAD_TASK_DIR/own $NOMAD_SECRETS_DIR/own && echo end
		}
		cd $NOMAD_ALLOC_DIR/data && look > found 2> /dev/null && mv found said` + wait},
	}
	a.Job.TaskGroups[0].Tasks = append(a.Job.TaskGroups[0].Tasks, &spy)
	return a
}

// A task's directories are its user's: another user in the allocation neither writes to them nor reads
// the secrets. An agent that starts again changes nothing of that.
func TestTasks_OwnTheirDirectories(t *testing.T) {
	for driver, c := range map[string]struct{ found, tmp string }{
		"raw_exec": {"public\nend", "755"}, // it reaches the directories, by their group
		"exec":     {"end", "1777"},
	} {
		t.Run(driver, func(t *testing.T) {
			m := newMachine(t)
			if err := os.Chmod(m.dir, 0o711); err != nil {
				t.Fatal(err)
			}
			m.start()
			m.servers.place(spyingAlloc(driver))
			m.until("the allocation runs", m.runsAlloc("a1"))
			m.until("the second task has looked", func() bool { return m.read("alloc/a1/alloc/data/said") != "" })
			if got := m.read("alloc/a1/alloc/data/said"); got != c.found {
				t.Errorf("the other task found %q", got)
			}
			check := func() {
				t.Helper()
				for path, want := range map[string]string{
					"web/local": "4321:1234 750", "web/secrets": "4321:1234 700", "web/tmp": "4321:1234 " + c.tmp,
					"spy/local": "4322:1234 755", "spy/secrets": "4322:1234 700", "spy/tmp": "4322:1234 " + c.tmp,
					"web/local/file": "4321:1234 644", "alloc/data": "0:0 777",
				} {
					if got := ownerOf(t, filepath.Join(m.dir, "alloc/a1", path)); got != want {
						t.Errorf("%s: %s, want %s", path, got, want)
					}
				}
			}
			check()
			m.kill()
			reported := m.updates()
			m.start()
			m.until("the next agent reports its state", func() bool { return m.updates() > reported })
			check()
			m.servers.remove("a1")
			m.until("its directory is gone", func() bool {
				_, err := os.Stat(filepath.Join(m.dir, "alloc/a1"))
				return errors.Is(err, fs.ErrNotExist)
			})
		})
	}
}

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
)

// newServer returns a server that is a cluster of its own and has no node.
func newServer(t *testing.T, name string) *agent {
	t.Helper()
	a := newAgent(t, name, "-server")
	a.ready = (*agent).hasLeader
	return a
}

// storedBy are the settings of the destinations of archives, which are files of a directory in the end. A
// period of a minute is the shortest one: the leader calls the program for the first time when one is over.
var storedBy = map[string]func(dir string) string{
	"a directory": func(dir string) string {
		return fmt.Sprintf("every = \"1h\"\n directory = %q\n retain = 2", dir)
	},
	"a program": func(dir string) string {
		script := `cat > "` + dir + `/$BERTH_SNAPSHOT_NAME.part" && ` +
			`mv "` + dir + `/$BERTH_SNAPSHOT_NAME.part" "` + dir + `/$BERTH_SNAPSHOT_NAME"`
		return fmt.Sprintf("every = \"1m\"\n command = [\"/bin/sh\", \"-c\", %q]", script)
	},
}

// An archive that the server has saved on its schedule, encrypted, brings the state into an empty cluster.
func TestSnapshotAgent_ItsArchiveIsRestoredByACommand(t *testing.T) {
	t.Parallel()
	for to, settings := range storedBy {
		t.Run("from "+to, func(t *testing.T) {
			t.Parallel()
			restoreScheduled(t, settings)
		})
	}
}

func restoreScheduled(t *testing.T, settings func(dir string) string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}

	old := newServer(t, "old")
	archives := filepath.Join(old.dir, "archives")
	err = os.Mkdir(archives, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	old.start()
	old.must("job", "run", "-detach", old.writeJob(jobFile{name: "kept", node: "nobody", script: "true"}))
	old.stop()

	old.args = append(old.args, "-config", old.writeFile("archives.hcl", fmt.Sprintf(`server {
  snapshot_agent {
    %s
    encrypt_to = [%q]
  }
}
`, settings(archives), identity.Recipient())))
	old.start()
	var saved []string
	eventually(t, "there is an archive", func() error {
		saved, err = filepath.Glob(filepath.Join(archives, "*.snap.age"))
		if err == nil && len(saved) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	old.stop()

	empty := newServer(t, "empty")
	empty.start()
	key := empty.writeFile("key.txt", identity.String()+"\n")
	empty.must("operator", "snapshot", "restore", "-identity", key, saved[0])
	if out := empty.must("job", "status"); !strings.Contains(out, "kept") {
		t.Errorf("the job is not there:\n%s", out)
	}
	empty.stop()
}

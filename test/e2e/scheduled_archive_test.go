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

// An archive that the server has saved on its schedule, encrypted, brings the state into an empty cluster.
func TestSnapshotAgent_ItsArchiveIsRestoredByACommand(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}

	old := newServer(t, "old")
	old.start()
	old.must("job", "run", "-detach", old.writeJob(jobFile{name: "kept", node: "nobody", script: "true"}))
	old.stop()

	// At its start the leader finds no archive of the hour, and saves one.
	archives := filepath.Join(old.dir, "archives")
	err = os.Mkdir(archives, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	old.args = append(old.args, "-config", old.writeFile("archives.hcl", fmt.Sprintf(`server {
  snapshot_agent {
    every      = "1h"
    directory  = %q
    retain     = 2
    encrypt_to = [%q]
  }
}
`, archives, identity.Recipient())))
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

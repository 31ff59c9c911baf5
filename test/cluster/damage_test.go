package cluster_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/structs"
	"berth/test/cluster"
)

// TestDamagedFollower_RejectsAndIsReplaced changes one byte of a job's name in the log of a stopped follower.
func TestDamagedFollower_RejectsAndIsReplaced(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections)
	leader := c.Leader()
	cluster.Must(c, leader, structs.JobRegister, jobRequest("untouched"))
	follower := c.Others(leader)[0]
	c.Await("the follower has the job", func() bool {
		return hasJob(follower, "untouched")
	})
	if err := follower.Kill(); err != nil {
		t.Fatal(err)
	}
	raftDir := filepath.Join(follower.DataDir(), "raft")

	if err := os.Rename(raftDir, raftDir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := c.FailsToStart(follower); !strings.Contains(err.Error(), raftDir) {
		t.Errorf("without its log: %v", err)
	}
	if err := os.Rename(raftDir+".away", raftDir); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(raftDir, "wal", "*.wal"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	changeByte(t, segments[0], "untouched")
	if err := c.FailsToStart(follower); !strings.Contains(err.Error(), segments[0]) {
		t.Errorf("with another byte in its log: %v", err)
	}

	cluster.Must(c, c.Leader(c.Others(follower)...), structs.JobRegister, jobRequest("without-it"))
	if err := os.RemoveAll(follower.DataDir()); err != nil { // the remedy that the error names
		t.Fatal(err)
	}
	c.Restart(follower)
	for _, job := range []string{"untouched", "without-it"} {
		c.Await("the replacement has "+job, func() bool {
			return hasJob(follower, job)
		})
	}
	c.Await("there are three members", func() bool {
		return len(voters(t, c.Leader())) == 3
	})
}

// changeByte changes the first letter of a text in a file.
func changeByte(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 1<<20)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(text))
	if at < 0 {
		t.Fatalf("%q is not in %s", text, path)
	}
	if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
		t.Fatal(err)
	}
}

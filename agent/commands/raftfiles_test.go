package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/server/raftfiles"
	"berth/structs"
)

// secretOfEntry is in the payload of each entry of a node.
const secretOfEntry = "hunter2-of-a-node"

// saveLog makes the files of a server that has stopped: the registrations of nodes, one alone and two in a
// batch, and an entry of a newer version.
func saveLog(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	id, err := raftfiles.ServerID(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := raftfiles.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := raftfiles.Open(raftfiles.Options{DataDir: dir, ID: id, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	node, err := fsm.NodeRegister.Encode(&structs.NodeRegisterRequest{
		Node: &structs.Node{ID: "n1", SecretID: secretOfEntry},
	})
	if err != nil {
		t.Fatal(err)
	}
	var entries []*raft.Log
	for i, data := range [][]byte{node, fsm.Batch.Encode([][]byte{node, node}), []byte("\xfe" + secretOfEntry)} {
		entries = append(entries, &raft.Log{
			Index: uint64(i + 1), Term: 1, Type: raft.LogCommand, Data: data, AppendedAt: time.Unix(1000, 0),
		})
	}
	err = f.Log.StoreLogs(append(entries, &raft.Log{Index: 4, Term: 2, Type: raft.LogNoop}))
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = lock.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRaftInfo_ShowsTheEndsOfTheLog(t *testing.T) {
	dir := saveLog(t)
	code, out, errs := runLine(t, "operator raft info "+dir)
	if code != 0 || errs != "" {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	for _, want := range []string{
		"First entry         = index 1, term 1\n",
		"Last entry          = index 4, term 2\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	code, out, _ = runLine(t, "operator raft info -json "+dir)
	if code != 0 || !strings.Contains(out, `"Last": 4`) {
		t.Errorf("got exit code %d:\n%s", code, out)
	}
	code, _, errs = runLine(t, "operator raft info "+t.TempDir())
	if code != structs.KindNotFound.ExitCode() {
		t.Errorf("a directory without a server: got exit code %d: %s", code, errs)
	}
}

func TestRaftLogs_ShowsNamesAndNoPayloads(t *testing.T) {
	dir := saveLog(t)
	for line, want := range map[string][]string{
		"operator raft logs ":         {"NodeRegister ", "NodeRegister (2)", "command 254", "noop", "1970-01-01T"},
		"operator raft logs -json ":   {`"Name": "NodeRegister"`, `"Index": 1,`, `"Index": 4,`},
		"operator raft logs -last 2 ": {"command 254", "noop"},
	} {
		code, out, errs := runLine(t, line+dir)
		if code != 0 || errs != "" {
			t.Fatalf("%s: got exit code %d: %s", line, code, errs)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not in\n%s", line, text, out)
			}
		}
		if strings.Contains(out, "hunter2") || strings.Contains(line, "-last") && strings.Contains(out, "NodeReg") {
			t.Errorf("%s shows\n%s", line, out)
		}
	}
	for _, last := range []int{0, mostShownEntries + 1} {
		code, _, errs := runLine(t, fmt.Sprintf("operator raft logs -last %d %s", last, dir))
		if code != 2 || !strings.Contains(errs, "expected 1 to") {
			t.Errorf("-last %d: got exit code %d: %s", last, code, errs)
		}
	}
}

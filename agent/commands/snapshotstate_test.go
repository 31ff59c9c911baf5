package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/snaparchive"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// saveArchive saves a state with a job and a node, which has a secret.
func saveArchive(t *testing.T) (path string) {
	t.Helper()
	store := state.New()
	err := store.Write(7, func(tx *state.WriteTx) error {
		schema.Jobs.Put(tx, &structs.Job{ID: "web", Namespace: structs.DefaultNamespace})
		schema.Nodes.Put(tx, &structs.Node{ID: "n1", Name: "one", SecretID: "hunter2"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var saved, archive bytes.Buffer
	err = store.Save(&saved)
	if err == nil {
		err = snaparchive.Write(&archive, snaparchive.Meta{Index: 7, Term: 1}, int64(saved.Len()), &saved)
	}
	path = filepath.Join(t.TempDir(), "backup.snap")
	if err == nil {
		err = os.WriteFile(path, archive.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The rows of an archive are lines of JSON without secrets.
func TestSnapshotState_ShowsTheRows(t *testing.T) {
	code, out, errs := runLine(t, "operator snapshot state "+saveArchive(t))
	if code != 0 || errs != "" {
		t.Fatalf("got exit code %d: %s", code, errs)
	}

	ids := map[string]string{}
	for line := range strings.Lines(out) {
		var row map[string]struct{ ID, Name string }
		err := json.Unmarshal([]byte(line), &row)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for kind, r := range row {
			ids[kind] = r.ID + r.Name
		}
	}
	if ids["Job"] != "web" || ids["Node"] != "n1one" {
		t.Errorf("got the rows %v", ids)
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("the secret of the node shows:\n%s", out)
	}
}

func TestSnapshotState_RejectsADamagedArchive(t *testing.T) {
	path := saveArchive(t)
	err := os.Truncate(path, 200)
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := runLine(t, "operator snapshot state "+path)
	if code != 2 || out != "" || !strings.Contains(errs, path) {
		t.Errorf("got exit code %d: %q, %q", code, out, errs)
	}
}

package operator_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"berth/cli/clitest"
	"berth/internal/snaparchive"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// stateOfJob is a saved state with a job that has a secret in its environment.
func stateOfJob(t *testing.T) []byte {
	t.Helper()
	store := state.New()
	job := &structs.Job{ID: "web", Namespace: structs.DefaultNamespace, TaskGroups: []*structs.TaskGroup{{
		Name: "g", Tasks: []*structs.Task{{Name: "t", Driver: "exec", Env: map[string]string{"KEY": "hunter2"}}},
	}}}
	err := store.Write(42, func(tx *state.WriteTx) error {
		schema.Jobs.Put(tx, job)
		return nil
	})
	var saved bytes.Buffer
	if err == nil {
		err = store.Save(&saved)
	}
	if err != nil {
		t.Fatal(err)
	}
	return saved.Bytes()
}

func TestSnapshotRedact_WritesAnArchiveThatNobodyRestores(t *testing.T) {
	saved := clitest.StateArchive(stateOfJob(t))
	f := newSnapshotFixture(t, saved)
	path := f.write(t, "a.snap", saved)
	code, out, errs := f.run(t, "snapshot", "redact", path)
	if code != 0 || !strings.Contains(out, "Wrote the redacted state as of index 42 to "+path+".redacted\n") {
		t.Fatalf("got exit code %d, %s%s", code, out, errs)
	}
	if !bytes.Equal(f.read(t, "a.snap"), saved) {
		t.Error("the saved archive has changed")
	}
	var left bytes.Buffer
	meta, err := snaparchive.Read(bytes.NewReader(f.read(t, "a.snap.redacted")), &left)
	if err != nil || !meta.Redacted || meta.Index != 42 || meta.Term != 3 || meta.Region != "global" {
		t.Fatalf("the archive is %+v, %v", meta, err)
	}
	if bytes.Contains(left.Bytes(), []byte("hunter2")) || !bytes.Contains(left.Bytes(), []byte("web")) {
		t.Errorf("the state is %q", left.String())
	}

	code, out, errs = f.run(t, "snapshot", "inspect", path+".redacted")
	if code != 0 || !strings.Contains(out, "It is redacted, so that others may have it, and cannot be restored\n") ||
		strings.Contains(out, "needs no key") {
		t.Errorf("inspect: got exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = f.run(t, "snapshot", "restore", path+".redacted")
	if code != structs.KindPrecondition.ExitCode() || !strings.Contains(errs, "the archive is redacted") ||
		f.restored() != nil {
		t.Errorf("restore: got exit code %d, %s%s, and %d bytes were sent", code, out, errs, len(f.restored()))
	}
}

func TestSnapshotRedact_ReplacesNoFile(t *testing.T) {
	f := newSnapshotFixture(t, nil)
	path := f.write(t, "a.snap", clitest.StateArchive(stateOfJob(t)))
	f.write(t, "b.snap", []byte("a backup"))
	code, _, errs := f.run(t, "snapshot", "redact", path, f.path("b.snap"))
	if code != structs.KindConflict.ExitCode() || !strings.Contains(errs, "it is not overwritten") ||
		string(f.read(t, "b.snap")) != "a backup" {
		t.Errorf("got exit code %d, %s", code, errs)
	}
	damaged := f.write(t, "damaged.snap", f.read(t, "a.snap")[:200])
	code, _, errs = f.run(t, "snapshot", "redact", damaged)
	if code != 2 || !strings.Contains(errs, damaged) {
		t.Errorf("a damaged archive: got exit code %d, %s", code, errs)
	}
	files, err := os.ReadDir(f.dir)
	if err != nil || len(files) != 4 {
		t.Errorf("the files are %v, %v", files, err)
	}
}

func TestSnapshotRedact_ReadsAnEncryptedArchive(t *testing.T) {
	f := newSnapshotFixture(t, clitest.StateArchive(stateOfJob(t)))
	recipient := f.identity.Recipient().String()
	code, out, errs := f.run(t, "snapshot", "save", "-encrypt-to", recipient, f.path("a.age"))
	if code != 0 {
		t.Fatalf("got exit code %d, %s%s", code, out, errs)
	}
	key := f.path("key.txt")
	code, out, errs = f.run(t, "snapshot", "redact", "-identity", key, f.path("a.age"), f.path("b"))
	if code != 0 {
		t.Fatalf("got exit code %d, %s%s", code, out, errs)
	}
	meta, err := snaparchive.Read(bytes.NewReader(f.read(t, "b")), new(bytes.Buffer))
	if err != nil || !meta.Redacted {
		t.Errorf("the archive is %+v, %v", meta, err)
	}
}

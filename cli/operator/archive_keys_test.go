package operator_test

import (
	"bytes"
	"strings"
	"testing"

	"berth/cli/clitest"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// sealedState is a saved state with two root keys, of which the first one encrypts two variables.
func sealedState(t *testing.T) []byte {
	t.Helper()
	store := state.New()
	err := store.Write(7, func(tx *state.WriteTx) error {
		was := ""
		for _, id := range []string{"root1", "root2"} {
			err := trust.RootKeyAdd(tx, &cluster.RootKeyAddRequest{
				KeyID:   id,
				Wrapped: []byte("wrapped"),
				KEK:     "kek-of-" + id,
				Digest:  []byte(id),
				Was:     was,
			})
			if err != nil {
				return err
			}
			was = id
			if id == "root1" {
				err = putVariables(tx, "a", "b")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := store.Save(&saved); err != nil {
		t.Fatal(err)
	}
	return saved.Bytes()
}

func putVariables(tx *state.WriteTx, paths ...string) error {
	for _, path := range paths {
		err := state.VariablePut(tx, &access.VariableChange{
			Namespace: "default",
			Path:      path,
			Sealed:    &structs.Sealed{KeyID: "root1", Data: []byte("data")},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// An operator knows before a restore which keys it takes.
func TestSnapshotInspect_NamesTheKeysThatARestoreNeeds(t *testing.T) {
	f := newSnapshotFixture(t, nil)
	t.Setenv("BERTH_ADDR", "http://127.0.0.1:1") // no agent
	sealed := f.write(t, "sealed.snap", clitest.StateArchive(sealedState(t)))
	code, out, errs := f.run(t, "snapshot", "inspect", sealed)
	lines := strings.Join(strings.Fields(out), " ")
	if code != 0 || !strings.Contains(lines, "kek-of-root1 root1 inactive 2 kek-of-root2 root2 active 0") {
		t.Errorf("got exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = f.run(t, "snapshot", "inspect", "-t",
		"{{range .RootKeys}}{{.KEK}} {{.Secrets}} {{end}}{{.KeysFault}}", sealed)
	if code != 0 || strings.TrimSpace(out) != "kek-of-root1 2 kek-of-root2 0" {
		t.Errorf("got exit code %d, %s%s", code, out, errs)
	}

	plain := f.write(t, "plain.snap", clitest.StateArchive(clitest.ValidState()))
	code, out, errs = f.run(t, "snapshot", "inspect", plain)
	if code != 0 || !strings.Contains(out, "no secrets") {
		t.Errorf("got exit code %d, %s%s", code, out, errs)
	}
	// The archive is complete, and its state is of no version.
	unknown := f.write(t, "unknown.snap", clitest.StateArchive(bytes.Repeat([]byte("x"), 1<<20)))
	code, out, errs = f.run(t, "snapshot", "inspect", unknown)
	if code != 0 || !strings.Contains(out, "is complete") || !strings.Contains(out, "needs are not known") {
		t.Errorf("got exit code %d, %s%s", code, out, errs)
	}
}

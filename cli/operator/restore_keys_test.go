package operator_test

import (
	"os"
	"strings"
	"testing"

	"filippo.io/age"

	"berth/cli/clitest"
	"berth/internal/keyring"
	"berth/structs"
)

// sentKey returns the key of the last restore, from its header.
func (f *snapshotFixture) sentKey(t *testing.T) *keyring.FileKey {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	key, err := keyring.ParseFileKey([]byte(f.header.Get("X-Berth-Key-File")))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSnapshotRestore_SendsTheKeyOfTheArchive(t *testing.T) {
	f := newSnapshotFixture(t, nil)
	archive := f.write(t, "a.snap", clitest.StateArchive(clitest.ValidState()))
	code, out, errs := initKey(t, "-out", f.path("keyring"),
		"-escrow-to", f.identity.Recipient().String(), "-escrow-out", f.path("escrow.age"))
	if code != 0 {
		t.Fatal(out, errs)
	}
	want, err := keyring.ReadFile(f.path("keyring"))
	if err != nil {
		t.Fatal(err)
	}

	for _, flags := range [][]string{
		{"-keyring-file", f.path("keyring")},
		{"-escrow", f.path("escrow.age"), "-identity", f.path("key.txt")},
	} {
		code, out, errs := f.run(t, append(append([]string{"snapshot", "restore"}, flags...), archive)...)
		if code != 0 {
			t.Fatalf("%q: got exit code %d, %s%s", flags, code, out, errs)
		}
		if got := f.sentKey(t); got.ID() != want.ID() {
			t.Errorf("%q: it has sent key %s", flags, got.ID())
		}
		secret := strings.Fields(string(want.Text()))[2]
		if strings.Contains(f.query, "key") || strings.Contains(out+errs, secret) {
			t.Errorf("the query is %q", f.query)
		}
	}

	code, _, errs = f.run(t, "snapshot", "restore", "-lose-secrets", archive)
	if code != 0 || f.header.Get("X-Berth-Key-File") != "" || f.header.Get("X-Berth-Lose-Secrets") != "true" {
		t.Errorf("got exit code %d, the query %q, %s", code, f.query, errs)
	}
	code, _, errs = f.run(t, "snapshot", "restore", archive)
	if code != 0 || f.header.Get("X-Berth-Lose-Secrets") != "" {
		t.Errorf("got exit code %d, %s", code, errs)
	}
}

func TestSnapshotRestore_RejectsABadKeyBeforeItSends(t *testing.T) {
	f := newSnapshotFixture(t, nil)
	archive := f.write(t, "a.snap", clitest.StateArchive(clitest.ValidState()))
	key := f.path("keyring")
	code, _, errs := initKey(t, "-out", key,
		"-escrow-to", f.identity.Recipient().String(), "-escrow-out", f.path("escrow.age"))
	if code != 0 {
		t.Fatal(errs)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "other.txt", []byte(other.String()))
	open := f.write(t, "open", f.read(t, "keyring"))
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	own := os.Getenv("BERTH_ADDR")

	for _, c := range []struct {
		address string
		flags   []string
		want    string
	}{
		{own, []string{"-keyring-file", key, "-escrow", key}, "both given"},
		{own, []string{"-keyring-file", f.path("missing")}, "no such file"},
		{own, []string{"-keyring-file", ""}, "-keyring-file"},
		{own, []string{"-keyring-file", f.path("key.txt")}, "no key-encryption key"},
		{own, []string{"-keyring-file", open}, "chmod 600"},
		{own, []string{"-escrow", f.path("escrow.age")}, "-escrow needs -identity"},
		{
			own,
			[]string{"-escrow", f.path("escrow.age"), "-identity", f.path("other.txt")},
			"none of the identities",
		},
		{own, []string{"-escrow", archive, "-identity", f.path("key.txt")}, "no key-encryption key"},
		{"http://192.0.2.1:4646", []string{"-keyring-file", key}, "in plain form"},
	} {
		t.Setenv("BERTH_ADDR", c.address)
		code, out, errs := f.run(t, append(append([]string{"snapshot", "restore"}, c.flags...), archive)...)
		if code != structs.KindInvalid.ExitCode() || !strings.Contains(errs, c.want) {
			t.Errorf("%q: got exit code %d, %s%s", c.flags, code, out, errs)
		}
	}
	if f.restored() != nil {
		t.Error("an archive was sent")
	}
}

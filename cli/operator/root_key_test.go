package operator_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"berth/cli"
	"berth/cli/clitest"
	"berth/internal/keyring"
	"berth/structs"
)

func initKey(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), append([]string{"operator", "root", "keyring", "init"}, args...)...)
}

func TestRootKeyring_InitAsksForACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	code, _, errs := initKey(t, "-out", path)
	if code != structs.KindInvalid.ExitCode() || !strings.Contains(errs, "-key-saved") {
		t.Errorf("got exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there")
	}

	code, out, errs := initKey(t, "-out", path, "-key-saved")
	key, err := keyring.ReadFile(path)
	if code != 0 || err != nil || !strings.Contains(out, key.ID()) || !strings.Contains(out, "Keep a copy") {
		t.Fatalf("got exit code %d, %s%s, error %v", code, out, errs, err)
	}
	if strings.Contains(out, strings.Fields(string(key.Text()))[2]) {
		t.Error("the output shows the key")
	}
	code, _, errs = initKey(t, "-out", path, "-key-saved")
	if code != structs.KindConflict.ExitCode() || !strings.Contains(errs, "never overwritten") {
		t.Errorf("a second time: got exit code %d, %s", code, errs)
	}
}

func TestRootKeyring_TheRecipientReadsTheEscrow(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keyring")
	code, out, errs := initKey(t, "-out", path,
		"-escrow-to", identity.Recipient().String(), "-escrow-out", path+".age")
	if code != 0 {
		t.Fatalf("got exit code %d, %s%s", code, out, errs)
	}
	f, err := os.Open(path + ".age")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := age.Decrypt(armor.NewReader(f), identity)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	escrowed, err := keyring.ParseFileKey(text)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyring.ReadFile(path)
	if err != nil || key.ID() != escrowed.ID() {
		t.Errorf("the copy is of another key, error %v", err)
	}

	code, _, errs = initKey(t, "-out", path+"2", "-escrow-to", "age1nobody", "-escrow-out", path+"2.age")
	if code != structs.KindInvalid.ExitCode() {
		t.Errorf("a wrong recipient: got exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(path + "2"); err == nil {
		t.Error("the key was made without its copy")
	}
}

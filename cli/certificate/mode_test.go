package certificate_test

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

func initServer(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), append([]string{"tls", "init", "-id", "s1"}, args...)...)
}

func mustRead(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The servers of a cluster that runs understand each other while they get TLS and a gossip key, and their
// operator reads the next steps.
func TestInit_PreparesARunningCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, out, errs := initServer(t, "-mode", "prefer", "-key-saved", "-dir", dir)
	if code != 0 || !strings.Contains(out, "transfer-leadership") || !strings.Contains(out, "-node-name NAME") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	settings := mustRead(t, dir, "tls.hcl")
	for _, line := range []string{
		`mode      = "prefer"`,
		"encrypt_verify_incoming = false",
		"encrypt_verify_outgoing = false",
	} {
		if !strings.Contains(settings, line) {
			t.Errorf("no %s in\n%s", line, settings)
		}
	}

	dir = t.TempDir()
	code, out, errs = initServer(t, "-key-saved", "-dir", dir)
	settings = mustRead(t, dir, "tls.hcl")
	if code != 0 || !strings.Contains(settings, `mode      = "require"`) || strings.Contains(settings, "verify") ||
		strings.Contains(out, "transfer-leadership") {
		t.Errorf("a new cluster: exit code %d, %s%s\n%s", code, out, errs, settings)
	}
}

func TestInit_RejectsOtherModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, verb := range [][]string{{"init", "-key-saved"}, {"join", "127.0.0.1:1", "token"}} {
		line := append([]string{"tls", verb[0], "-mode", "off", "-dir", dir}, verb[1:]...)
		code, _, errs := clitest.Run(t, cli.Tree(), line...)
		if code == 0 || !strings.Contains(errs, `-mode is "off"; expected prefer or require`) {
			t.Errorf("%s: exit code %d, %s", verb[0], code, errs)
		}
	}
}

// The servers have a keyring already: another key would open none of their secrets.
func TestInit_KeepsTheKeyringOfTheServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := keyring.NewFileKey()
	if err := key.WriteNew(filepath.Join(dir, "keyring")); err != nil {
		t.Fatal(err)
	}
	code, out, errs := initServer(t, "-key-saved", "-dir", dir)
	if code != 0 || mustRead(t, dir, "keyring") != string(key.Text()) ||
		!strings.Contains(mustRead(t, dir, "tls.hcl"), filepath.Join(dir, "keyring")+`"`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

func TestInit_RejectsADamagedKeyring(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keyring"), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := initServer(t, "-key-saved", "-dir", dir)
	if code != structs.KindInvalid.ExitCode() || !strings.Contains(errs, "no key-encryption key") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "tls.hcl")); err == nil {
		t.Error("the other files are there")
	}
}

func TestInit_AsksForACopyOfTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, errs := initServer(t, "-dir", dir)
	if code != structs.KindInvalid.ExitCode() || !strings.Contains(errs, "expected -key-saved or -escrow-to") {
		t.Errorf("exit code %d, %s", code, errs)
	}

	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	escrow := filepath.Join(t.TempDir(), "keyring.age")
	code, out, errs := initServer(t, "-dir", dir,
		"-escrow-to", identity.Recipient().String(), "-escrow-out", escrow)
	if code != 0 || !strings.Contains(out, "age -d -i IDENTITY "+escrow) {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	text := mustRead(t, filepath.Dir(escrow), "keyring.age")
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(text)), identity)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := io.ReadAll(r)
	if err != nil || string(copied) != mustRead(t, dir, "keyring") {
		t.Errorf("the copy is of another key, error %v", err)
	}
}

// A copy of a key that is in no file would look like that of the cluster.
func TestInit_WritesNoCopyWithoutTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tls.hcl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	escrow := filepath.Join(dir, "keyring.age")
	code, _, errs := initServer(t, "-dir", dir,
		"-escrow-to", identity.Recipient().String(), "-escrow-out", escrow)
	if code != structs.KindConflict.ExitCode() {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if _, err := os.Stat(escrow); err == nil {
		t.Error("the copy is there")
	}
}

package operator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"berth/cli"
	"berth/cli/clitest"
	"berth/structs"
)

// TestSnapshotInspect_ReadsAPipe reads an archive that cannot seek, as `snapshot inspect /dev/stdin` does.
func TestSnapshotInspect_ReadsAPipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	written := make(chan error, 1)
	go func() {
		_, err := in.Write(clitest.StateArchive(clitest.ValidState()))
		_ = in.Close()
		written <- err
	}()
	code, stdout, errs := clitest.Run(t, cli.Tree(),
		"operator", "snapshot", "inspect", fmt.Sprintf("/proc/self/fd/%d", out.Fd()))
	if err := <-written; err != nil || code != 0 || !strings.Contains(stdout, "42") {
		t.Errorf("got exit code %d, %s%s, error %v", code, stdout, errs, err)
	}
}

// snapshotAgent is an agent that sends one archive, and keeps the last one that it got.
type snapshotAgent struct {
	archive []byte
	mu      sync.Mutex
	got     []byte
	header  http.Header // of the last restore
	query   string
	// The answers to the lists of tokens before and after a restore. "": there is none.
	tokens, restoredTokens string
	mode, restoredMode     string // of access control
}

func (a *snapshotAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/acl/mode" && a.mode != "":
		mode := a.mode
		if a.restored() != nil {
			mode = a.restoredMode
		}
		_, _ = fmt.Fprintf(w, `{"Mode": %q}`, mode)
	case r.URL.Path == "/v1/acl/tokens":
		list := a.tokens
		if a.restored() != nil {
			list = a.restoredTokens
		}
		if list == "" {
			http.Error(w, "the token may not list tokens", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(list))
	case r.URL.Path != "/v1/operator/snapshot":
		http.NotFound(w, r)
	case r.Method == http.MethodGet:
		sum := sha256.Sum256(a.archive)
		w.Header().Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum[:]))
		_, _ = w.Write(a.archive)
	default:
		got, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.got = got
		a.header = r.Header.Clone()
		a.query = r.URL.RawQuery
		a.mu.Unlock()
		_, _ = w.Write([]byte("{}"))
	}
}

// restored returns the archive of the last restore.
func (a *snapshotAgent) restored() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got
}

// snapshotFixture has an agent, a directory, and an identity of age in its file key.txt.
type snapshotFixture struct {
	*snapshotAgent
	dir      string
	identity *age.X25519Identity
}

func newSnapshotFixture(t *testing.T, archive []byte) *snapshotFixture {
	t.Helper()
	f := &snapshotFixture{snapshotAgent: &snapshotAgent{archive: archive}, dir: t.TempDir()}
	served := httptest.NewServer(f.snapshotAgent)
	t.Cleanup(served.Close)
	t.Setenv("BERTH_ADDR", served.URL)
	var err error
	f.identity, err = age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "key.txt", []byte("# a comment\n"+f.identity.String()+"\n"))
	return f
}

func (f *snapshotFixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *snapshotFixture) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return f.path(name)
}

func (f *snapshotFixture) read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(f.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// run runs a command of berth operator at the agent.
func (f *snapshotFixture) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), append([]string{"operator"}, args...)...)
}

func TestSnapshotSave_EncryptsForEachRecipient(t *testing.T) {
	want := clitest.StateArchive(clitest.ValidState())
	f := newSnapshotFixture(t, want)
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	list := f.write(t, "recipients", []byte("# of the archives\n"+other.Recipient().String()+"\n"))
	code, out, errs := f.run(t, "snapshot", "save", "-encrypt-to", f.identity.Recipient().String(),
		"-recipients-file", list, f.path("a.age"))
	if code != 0 || !strings.Contains(out, "encrypted for 2 recipients") {
		t.Fatalf("got exit code %d, %s%s", code, out, errs)
	}

	saved := f.read(t, "a.age")
	if bytes.Contains(saved, want[:64]) {
		t.Error("the file has the plain archive")
	}
	for _, identity := range []age.Identity{f.identity, other} {
		r, err := age.Decrypt(bytes.NewReader(saved), identity)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("it decrypts to %d bytes, error %v", len(got), err)
		}
	}
	left, err := filepath.Glob(f.path(".berth-snapshot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, error %v", left, err)
	}
}

func TestSnapshotSave_VerifiesBeforeItEncrypts(t *testing.T) {
	whole := clitest.StateArchive(clitest.ValidState())
	f := newSnapshotFixture(t, whole[:len(whole)-9])
	for _, flags := range [][]string{nil, {"-encrypt-to", f.identity.Recipient().String()}} {
		f.write(t, "a.snap", []byte("former"))
		code, out, errs := f.run(t, append(append([]string{"snapshot", "save"}, flags...), f.path("a.snap"))...)
		if code == 0 || !strings.Contains(errs, "verifying the archive: ") {
			t.Errorf("%q: got exit code %d, %s%s", flags, code, out, errs)
		}
		if got := f.read(t, "a.snap"); string(got) != "former" {
			t.Errorf("%q: the former file has %d bytes", flags, len(got))
		}
	}
}

func TestSnapshotSave_RejectsWhatIsNoRecipient(t *testing.T) {
	f := newSnapshotFixture(t, clitest.StateArchive(clitest.ValidState()))
	bad := f.write(t, "bad", []byte("age1nothing\n"))
	for _, flags := range [][]string{
		{"-encrypt-to", "someone"},
		{"-encrypt-to", ""},
		{"-recipients-file", bad},
		{"-recipients-file", f.path("missing")},
		{"-recipients-file", ""},
		{"-recipients-file", f.write(t, "long", make([]byte, 1<<20))},
	} {
		code, out, errs := f.run(t, append(append([]string{"snapshot", "save"}, flags...), f.path("a"))...)
		if code != structs.KindInvalid.ExitCode() {
			t.Errorf("%q: got exit code %d, %s%s", flags, code, out, errs)
		}
	}
	if _, err := os.Stat(f.path("a")); err == nil {
		t.Error("a file was written")
	}
}

func TestSnapshotRestore_DecryptsWithAnIdentity(t *testing.T) {
	want := clitest.StateArchive(clitest.ValidState())
	f := newSnapshotFixture(t, want)
	code, _, errs := f.run(t, "snapshot", "save", "-encrypt-to", f.identity.Recipient().String(), f.path("a.age"))
	if code != 0 {
		t.Fatal(errs)
	}
	var lines bytes.Buffer
	armored := armor.NewWriter(&lines)
	in, err := age.Encrypt(armored, f.identity.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.Write(want)
	if err != nil || in.Close() != nil || armored.Close() != nil {
		t.Fatal(err)
	}
	f.write(t, "a.asc", lines.Bytes())

	for _, name := range []string{"a.age", "a.asc"} {
		code, out, errs := f.run(t, "snapshot", "restore", "-identity", f.path("key.txt"), f.path(name))
		if code != 0 || !bytes.Equal(f.restored(), want) {
			t.Errorf("%s: got exit code %d, %s%s", name, code, out, errs)
		}
		code, out, errs = f.run(t, "snapshot", "inspect", "-identity", f.path("key.txt"), f.path(name))
		if code != 0 || !strings.Contains(out, "encrypted with age") {
			t.Errorf("%s: inspect: got exit code %d, %s%s", name, code, out, errs)
		}
		code, out, errs = f.run(t, "check", "-identity", f.path("key.txt"), f.path(name))
		if code == structs.KindInvalid.ExitCode() || strings.Contains(errs, "age") {
			t.Errorf("%s: check: got exit code %d, %s%s", name, code, out, errs)
		}
	}
}

func TestSnapshotRestore_NamesTheRemedyForAnEncryptedArchive(t *testing.T) {
	f := newSnapshotFixture(t, clitest.StateArchive(clitest.ValidState()))
	code, _, errs := f.run(t, "snapshot", "save", "-encrypt-to", f.identity.Recipient().String(), f.path("a.age"))
	if code != 0 {
		t.Fatal(errs)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "other.txt", []byte(other.String()))
	whole := f.read(t, "a.age")
	f.write(t, "cut.age", whole[:len(whole)-20])
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-20] ^= 1
	f.write(t, "flipped.age", flipped)

	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"none", []string{f.path("a.age")}, "give the file of an identity that opens it, as -identity FILE"},
		{"another", []string{"-identity", f.path("other.txt"), f.path("a.age")}, "none of the identities"},
		{"no identity", []string{"-identity", f.path("a.age"), f.path("a.age")}, "has no identities of age"},
		{"no file", []string{"-identity", f.path("missing"), f.path("a.age")}, "no such file"},
		{"cut", []string{"-identity", f.path("key.txt"), f.path("cut.age")}, "cut.age: not a snapshot archive: failed to decrypt"},
		{"damaged", []string{"-identity", f.path("key.txt"), f.path("flipped.age")}, "flipped.age: not a snapshot archive: failed to decrypt"},
	} {
		for _, verb := range []string{"restore", "inspect"} {
			code, out, errs := f.run(t, append([]string{"snapshot", verb}, c.args...)...)
			if code != structs.KindInvalid.ExitCode() || !strings.Contains(errs, c.want) {
				t.Errorf("%s of %s: got exit code %d, %s%s", verb, c.name, code, out, errs)
			}
			if strings.Contains(errs, f.identity.String()) {
				t.Error("the error shows the identity")
			}
		}
	}
	if f.restored() != nil {
		t.Error("an archive was sent")
	}
}

func TestSnapshotRestore_NamesTheManagementTokensOfTheArchive(t *testing.T) {
	const own = `{"AccessorID": "own", "Name": "Bootstrap Token", "Type": "management"}`
	const former = `{"AccessorID": "former", "Name": "of Eve", "Type": "management"}`
	const ended = `{"AccessorID": "ended", "Type": "management", "ExpirationTime": "2020-01-01T00:00:00Z"}`
	const client = `{"AccessorID": "client", "Type": "client", "Policies": ["p"]}`
	f := newSnapshotFixture(t, nil)
	archive := f.write(t, "a.snap", clitest.StateArchive(clitest.ValidState()))
	f.tokens = "[" + own + "]"
	f.restoredTokens = "[" + own + "," + former + "," + ended + "," + client + "]"
	code, _, errs := f.run(t, "snapshot", "restore", archive)
	const want = `Warning: the archive has brought a management token, "of Eve". ` +
		"If nobody should have it: berth acl token delete former\n"
	if code != 0 || errs != want {
		t.Errorf("got exit code %d, %s", code, errs)
	}

	f.restoredTokens = ""
	code, _, errs = f.run(t, "snapshot", "restore", archive)
	if code != 0 || !strings.Contains(errs, "berth acl token list") {
		t.Errorf("without the right to list tokens: got exit code %d, %s", code, errs)
	}
}

func TestSnapshotRestore_TellsTheModeOfTheArchive(t *testing.T) {
	for mode, want := range map[string]string{
		"enforce": `Warning: the archive has brought the mode of access control "enforce"; it was "off". ` +
			"See: berth acl mode\n",
		"off": "",
	} {
		f := newSnapshotFixture(t, nil)
		archive := f.write(t, "a.snap", clitest.StateArchive(clitest.ValidState()))
		f.tokens, f.restoredTokens = "[]", "[]"
		f.mode, f.restoredMode = "off", mode
		code, _, errs := f.run(t, "snapshot", "restore", archive)
		if code != 0 || errs != want {
			t.Errorf("got exit code %d, %q; want %q", code, errs, want)
		}
	}
}

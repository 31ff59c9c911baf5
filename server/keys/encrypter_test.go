package keys

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script returns a command that runs a shell script.
func script(t *testing.T, text string) *command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &command{argv: []string{path}, keyID: "prod", timeout: commandTimeout}
}

// swapping is a program whose wrapped form begins with its letter, and that logs what it reads.
const swapping = `read -r line
echo "$line" >> "$0.log"; tr '\0' ' ' < /proc/$$/cmdline >> "$0.log"
tr '\0' ' ' < /proc/$$/environ >> "$0.env"
data=${line##*\"data\":\"}; data=${data%%\"*}
case "$line" in
*'"action":"wrap"'*) data=$(echo "$data" | base64 -d | sed 's/^/W/' | base64 -w0) ;;
*) data=$(echo "$data" | base64 -d | sed 's/^W//' | base64 -w0) ;;
esac
echo "{\"data\":\"$data\"}"
`

func TestCommand_WrapsAndUnwraps(t *testing.T) {
	c := script(t, swapping)
	key := []byte("0123456789abcdef0123456789abcdef")
	wrapped, err := c.Wrap(t.Context(), "one", key)
	if err != nil || wrapped[0] != 'W' {
		t.Fatalf("got %q, error %v", wrapped, err)
	}
	got, err := c.Unwrap(t.Context(), "one", wrapped)
	if err != nil || !bytes.Equal(got, key) {
		t.Fatalf("got %q, error %v", got, err)
	}
	log, err := os.ReadFile(c.argv[0] + ".log")
	if err != nil || !strings.Contains(string(log), `{"action":"wrap","key_id":"prod","data":"MDEy`) {
		t.Errorf("the program has read %s, error %v", log, err)
	}
	env, err := os.ReadFile(c.argv[0] + ".env")
	if err != nil || bytes.Contains(env, key) || strings.Contains(string(env), "MDEy") {
		t.Errorf("the environment has the key, error %v", err)
	}
	if c.ID() == (&command{keyID: "other"}).ID() || len(c.ID()) != 16 {
		t.Errorf("the fingerprint is %s", c.ID())
	}
}

func TestCommand_BoundsTheProgram(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a failure":      {"echo 'no such key' >&2; exit 3", "exit status 3: no such key"},
		"no answer":      {"exit 0", "did not write"},
		"no JSON":        {"echo hello", "did not write"},
		"no base64":      {`echo '{"data":"%"}'`, "did not write"},
		"a long answer":  {"head -c 100000 /dev/zero", "more than 32768 bytes"},
		"a hung program": {"sleep 1000 & wait", "did not end within 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			program := script(t, c.text)
			if strings.Contains(c.text, "sleep") {
				program.timeout = 50 * time.Millisecond
			}
			_, err := program.Wrap(t.Context(), "one", []byte("plain-key"))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "plain-key") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestUpdate_RejectsAKeyThatIsUnwrappedWrongly(t *testing.T) {
	cl := newCluster(t)
	wrong := script(t, strings.Replace(swapping, "*) data=$(echo \"$data\" | base64 -d | sed 's/^W//'",
		"*) data=$(echo \"$data\" | base64 -d | sed 's/^W./X/'", 1))
	s := cl.server(Settings{Source: Source{Command: wrong.argv, KeyID: "prod"}})
	s.lead(t.Context())
	if s.update(t.Context()) || !strings.Contains(s.log.String(), "another key") || len(s.Ring.IDs()) != 0 {
		t.Errorf("got %q: %s", s.Ring.IDs(), s.log.String())
	}
}

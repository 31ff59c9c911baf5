package gossip

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
	"berth/structs/cluster"
)

// keys are texts of valid keys that begin with the word canary, and no other text has.
var keys = []string{
	base64.StdEncoding.EncodeToString([]byte("canary-number-01")),
	base64.StdEncoding.EncodeToString([]byte("canary-number-02")),
}

// apply sets the keyring of a gossip, and returns it with the log.
func apply(e Encryption) (sc *serf.Config, log string, err error) {
	var out bytes.Buffer
	sc = serf.DefaultConfig()
	err = e.Apply(sc, hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &out}))
	return sc, out.String(), err
}

// ringOf returns the keys of a gossip as texts, the primary one first.
func ringOf(sc *serf.Config) (texts []string) {
	for _, key := range sc.MemberlistConfig.Keyring.GetKeys() {
		texts = append(texts, base64.StdEncoding.EncodeToString(key))
	}
	return texts
}

// checkHidden fails the test if a text shows a key, or a part of one.
func checkHidden(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, "canary") || strings.Contains(text, keys[0][:8]) {
		t.Errorf("%s shows a key: %s", what, text)
	}
}

// writeFile writes the keyring file of a server.
func writeFile(t *testing.T, dir, content string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, KeyringFile), []byte(content), 0o600)
	if err != nil {
		t.Fatal(err)
	}
}

func TestApply_WithoutAKeyDoesNotEncrypt(t *testing.T) {
	dir := t.TempDir()
	sc, log, err := apply(Encryption{Dir: dir, VerifyIncoming: true, VerifyOutgoing: true})
	if err != nil || sc.MemberlistConfig.Keyring != nil || !strings.Contains(log, "not encrypted") {
		t.Errorf("got the keyring %v, error %v, log %s", sc.MemberlistConfig.Keyring, err, log)
	}
	if files, err := os.ReadDir(dir); len(files) != 0 || err != nil {
		t.Errorf("got the files %v, error %v", files, err)
	}
}

func TestApply_WarnsWithoutAKeyWhereTLSIsRequired(t *testing.T) {
	for required, level := range map[bool]string{true: "[WARN]", false: "[INFO]"} {
		_, log, err := apply(Encryption{Dir: t.TempDir(), RequireTLS: required})
		if err != nil || !strings.Contains(log, level) || strings.Count(log, "gossip is not encrypted") != 1 {
			t.Errorf("TLS required: %v: %v, log %s; expected %s", required, err, log, level)
		}
	}
}

func TestApply_WritesTheFileOfTheFirstStart(t *testing.T) {
	dir := t.TempDir()
	sc, log, err := apply(Encryption{Dir: dir, Key: structs.Secret(keys[0]), VerifyOutgoing: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := ringOf(sc); !slices.Equal(got, keys[:1]) || !strings.Contains(log, "source=server.encrypt") {
		t.Errorf("got %d keys, log %s", len(got), log)
	}
	mc := sc.MemberlistConfig
	if mc.GossipVerifyIncoming || !mc.GossipVerifyOutgoing {
		t.Errorf("got incoming %t, outgoing %t", mc.GossipVerifyIncoming, mc.GossipVerifyOutgoing)
	}
	checkHidden(t, "the log", log)

	path := filepath.Join(dir, KeyringFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("got the file %v, error %v", info, err)
	}
	var stored []string
	content, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(content, &stored) != nil || !slices.Equal(stored, keys[:1]) {
		t.Errorf("the file has %s, error %v", content, err)
	}
}

func TestApply_KeepsChangesOnlyIfAllGossipIsEncrypted(t *testing.T) {
	for _, c := range []struct{ incoming, outgoing, keeps bool }{
		{false, false, false},
		{false, true, false},
		{true, false, false},
		{true, true, true},
	} {
		sc, _, err := apply(Encryption{
			Dir:            t.TempDir(),
			Key:            structs.Secret(keys[0]),
			VerifyIncoming: c.incoming,
			VerifyOutgoing: c.outgoing,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := sc.KeyringFile != ""; got != c.keeps {
			t.Errorf("incoming %t, outgoing %t: keeps changes %t", c.incoming, c.outgoing, got)
		}
	}
}

func TestApply_TheFileWinsOverTheSetting(t *testing.T) {
	const noEffect = "server.encrypt has no effect"
	for _, c := range []struct {
		setting string
		warns   bool
	}{
		{keys[0], true}, // of the first start, and removed since
		{keys[1], false},
		{"", false},
	} {
		dir := t.TempDir()
		writeFile(t, dir, fmt.Sprintf("[\n  %q\n]", keys[1]))
		sc, log, err := apply(Encryption{Dir: dir, Key: structs.Secret(c.setting)})
		if err != nil {
			t.Fatal(err)
		}
		if got := ringOf(sc); !slices.Equal(got, keys[1:]) || !strings.Contains(log, "source="+dir) {
			t.Errorf("with the setting %q: got %v, log %s", c.setting, got, log)
		}
		if got := strings.Contains(log, noEffect); got != c.warns {
			t.Errorf("with the setting %q: warned %t, want %t", c.setting, got, c.warns)
		}
		checkHidden(t, "the log", log)
	}
}

func TestApply_TheFirstKeyOfTheFileIsThePrimaryOne(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, fmt.Sprintf("[%q, %q]", keys[1], keys[0]))
	sc, _, err := apply(Encryption{Dir: dir})
	if err != nil || !slices.Equal(ringOf(sc), []string{keys[1], keys[0]}) {
		t.Errorf("got the error %v", err)
	}
}

func TestApply_RejectsADamagedFile(t *testing.T) {
	for content, want := range map[string]string{
		"":                                  "no list of keys",
		`["` + keys[0]:                      "no list of keys",
		`{"` + keys[0] + `": 1}`:            "no list of keys",
		"[]":                                "it has 0 keys; expected 1 to 16",
		`["` + keys[0] + `", "canary"]`:     "entry 2 is no base64",
		`["Y2FuYXJ5"]`:                      "entry 1 is a key of 6 bytes",
		strings.Repeat(" ", 9000) + keys[0]: "more than 8192 bytes",
		"[" + strings.Repeat(`"a",`, 16) + `"a"]`: "it has 17 keys",
	} {
		dir := t.TempDir()
		writeFile(t, dir, content)
		_, log, err := apply(Encryption{Dir: dir, Key: structs.Secret(keys[0])})
		if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), filepath.Join(dir, KeyringFile)) ||
			!strings.Contains(err.Error(), "another server") {
			t.Errorf("%.20q: got %v, want %q", content, err, want)
			continue
		}
		checkHidden(t, "the error", err.Error()+log)
	}
}

func TestApply_RejectsAFileThatOthersRead(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, fmt.Sprintf("[%q]", keys[0]))
	if err := os.Chmod(filepath.Join(dir, KeyringFile), 0o640); err != nil {
		t.Fatal(err)
	}
	_, _, err := apply(Encryption{Dir: dir})
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}

	other := t.TempDir()
	if err := os.Mkdir(filepath.Join(other, KeyringFile), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err = apply(Encryption{Dir: other})
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "no plain file") {
		t.Errorf("a directory: got %v", err)
	}
}

func TestCheckKey_NamesTheSettingAndTheRemedy(t *testing.T) {
	if err := CheckKey(""); err != nil {
		t.Errorf("without a key: %v", err)
	}
	if err := CheckKey(structs.Secret(keys[0])); err != nil {
		t.Errorf("with a key: %v", err)
	}
	err := CheckKey(structs.Secret(keys[0][1:]))
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "server: encrypt") ||
		!strings.Contains(err.Error(), cluster.GossipKeyCommand) {
		t.Fatalf("got %v", err)
	}
	checkHidden(t, "the error", err.Error())
}

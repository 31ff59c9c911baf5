package membership

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/store"
)

func TestLoad_MakesItOnceAndKeepsItSecret(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	a, err := LoadIdentity(db, dir, WantedIdentity{})
	if err != nil || a.NodeID == "" || a.SecretID == "" || a.NodeID == a.SecretID {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, err := LoadIdentity(db, dir, WantedIdentity{}); err != nil || a != b {
		t.Errorf("%+v, %v", b, err)
	}
	for _, name := range []string{"node-id", "secret-id"} {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
		for _, text := range []string{"", "another"} { // damaged
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want := path + ": the node's identity is not the one of its records"
			if _, err := LoadIdentity(db, dir, WantedIdentity{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s holds %q: %v", name, text, err)
			}
		}
		if err := os.Remove(path); err != nil { // as the error demands
			t.Fatal(err)
		}
		if b, err := LoadIdentity(db, dir, WantedIdentity{}); err != nil || a != b {
			t.Errorf("%s is gone: %+v, %v", name, b, err)
		}
	}
	fixed := WantedIdentity{Configured: "fixed"}
	if c, err := LoadIdentity(db, dir, fixed); err != nil || c.NodeID != "fixed" || c.SecretID != a.SecretID {
		t.Errorf("%+v, %v", c, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left %v", left)
	}
}

func TestLoad_WithoutRecordsTakesTheFiles(t *testing.T) {
	dir := t.TempDir()
	for i, text := range []string{"mine", ""} {
		db, err := store.Open(t.TempDir()) // of an older version, or removed
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		path := filepath.Join(dir, "node-id")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := LoadIdentity(db, dir, WantedIdentity{})
		if i == 0 && (err != nil || id.NodeID != "mine") {
			t.Errorf("%+v, %v", id, err)
		}
		if i == 1 && (err == nil || !strings.Contains(err.Error(), path)) {
			t.Errorf("an empty file: %v", err)
		}
	}
}

func TestLoad_TakesTheIDOfTheCertificate(t *testing.T) {
	for name, c := range map[string]struct {
		file   string // "" for a new node
		wanted WantedIdentity
		id     string // "" for an error
	}{
		"a new node":                 {"", WantedIdentity{Certified: "n1"}, "n1"},
		"the same node":              {"n1", WantedIdentity{Certified: "n1"}, "n1"},
		"another node":               {"n2", WantedIdentity{Certified: "n1"}, ""},
		"the configured node":        {"", WantedIdentity{Configured: "n1", Certified: "n1"}, "n1"},
		"another node is configured": {"", WantedIdentity{Configured: "n2", Certified: "n1"}, ""},
		"the certificate of no node": {"n2", WantedIdentity{}, "n2"},
	} {
		dir := t.TempDir()
		db, err := store.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if c.file != "" {
			err = os.WriteFile(filepath.Join(dir, nodeFile), []byte(c.file), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		id, err := LoadIdentity(db, dir, c.wanted)
		if id.NodeID != c.id && c.id != "" || (err == nil) != (c.id != "") {
			t.Errorf("%s: %v, %v", name, id, err)
		}
		if c.id == "" && !strings.Contains(err.Error(), "berth tls cert create -client -id n2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

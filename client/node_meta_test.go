package client

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"berth/client/store"
	"berth/structs"
)

func mustLoadMeta(t *testing.T, dir string) (*nodeMeta, *store.DB) {
	t.Helper()
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := loadMeta(db)
	if err != nil {
		t.Fatal(err)
	}
	return m, db
}

func setMeta(t *testing.T, m *nodeMeta, static map[string]string, changes map[string]*string) {
	t.Helper()
	if _, err := m.Apply(static, changes); err != nil {
		t.Fatal(err)
	}
}

func TestMeta_LiesOverTheConfigurationAndSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	static := map[string]string{"rack": "r1", "zone": "a", "old": "x"}
	m, db := mustLoadMeta(t, dir)
	setMeta(t, m, static, map[string]*string{"rack": new("r2"), "role": new("db"), "old": nil, "temp": new("1")})
	setMeta(t, m, static, map[string]*string{"temp": nil})
	want := map[string]string{"rack": "r2", "role": "db", "zone": "a"}
	if got := m.Over(static); !maps.Equal(got, want) {
		t.Errorf("the metadata is %v, want %v", got, want)
	}
	if static["rack"] != "r1" || static["old"] != "x" {
		t.Errorf("the configuration has changed: %v", static)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	again, db := mustLoadMeta(t, dir)
	defer db.Close()
	if got := again.Over(static); !maps.Equal(got, want) {
		t.Errorf("after a restart the metadata is %v, want %v", got, want)
	}
	read := again.Read(static)
	if _, hides := read.Dynamic["old"]; !hides || len(read.Dynamic) != 3 || read.Static["old"] != "x" {
		t.Errorf("the parts are %+v, want the hidden key among the changes", read)
	}
	setMeta(t, again, static, map[string]*string{"old": new("y")})
	if got := again.Over(static)["old"]; got != "y" {
		t.Errorf("a hidden key that is set again has %q, want y", got)
	}
}

func TestMeta_RejectsWrongChangesWhole(t *testing.T) {
	m, db := mustLoadMeta(t, t.TempDir())
	defer db.Close()
	many := map[string]*string{}
	for i := range structs.MaxNodeAttributes + 1 {
		many[fmt.Sprint("k", i)] = new("v")
	}
	for name, changes := range map[string]map[string]*string{
		"an empty key":        {"": new("x"), "good": new("x")},
		"a blank":             {"a b": new("x"), "good": new("x")},
		"a control character": {"a\x00": new("x"), "good": new("x")},
		"an interpolation":    {"${a}": new("x"), "good": new("x")},
		"a long key":          {strings.Repeat("k", structs.MaxName+1): new("x"), "good": new("x")},
		"too many entries":    many,
		"too many bytes":      {"good": new(strings.Repeat("v", structs.MaxNodeBytes))},
	} {
		_, err := m.Apply(nil, changes)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
	if got := m.Over(nil); len(got) > 0 {
		t.Errorf("rejected changes have set %v", got)
	}
}

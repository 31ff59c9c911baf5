package archtest

import (
	"go/ast"
	"path/filepath"
	"slices"
	"testing"
)

// separation says that no package at or below one path imports a package at or below another.
type separation struct{ from, to string }

// separations lists those that the layers alone do not enforce.
var separations = []separation{
	// A loop calls no procedure: both use rows, the log and server/nodeconn.
	{"berth/server/control", "berth/endpoints"},
	// The procedures of an area use core, and those of no other area.
	{"berth/endpoints/csi", "berth/endpoints/job"},
	{"berth/endpoints/csi", "berth/endpoints/node"},
	{"berth/endpoints/job", "berth/endpoints/csi"},
	{"berth/endpoints/job", "berth/endpoints/node"},
	{"berth/endpoints/node", "berth/endpoints/csi"},
	{"berth/endpoints/node", "berth/endpoints/job"},
	// A node receives its rows by RPC.
	{"berth/client", "berth/state"},
	// A plan is a function of rows.
	{"berth/scheduler", "github.com/hashicorp/raft"},
	// Every server makes the same rows of an entry.
	{"berth/state", "net"},
	{"berth/state", "os"},
}

// clock has the functions of package time that depend on the time at which they are called.
var clock = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}

func TestPackages_StayApart(t *testing.T) {
	list := packages(t)
	for _, p := range list {
		for _, imp := range p.Imports {
			if separated(p.ImportPath, imp) {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
	for _, s := range separations {
		from, to := false, false
		for _, p := range list {
			from = from || within(p.ImportPath, []string{s.from})
			for _, imp := range p.Imports {
				to = to || within(imp, []string{s.to})
			}
		}
		if !from || !to {
			t.Errorf("%s has no package, or no package imports %s: update the separation", s.from, s.to)
		}
	}
}

// separated reports whether a package must not import another.
func separated(from, to string) bool {
	return slices.ContainsFunc(separations, func(s separation) bool {
		return within(from, []string{s.from}) && within(to, []string{s.to})
	})
}

func TestSeparated_FindsImports(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"berth/server/control", "berth/endpoints", true},
		{"berth/server/control", "berth/endpoints/query", true},
		{"berth/server/control/workqueue", "berth/endpoints", true},
		{"berth/server", "berth/endpoints", false},
		{"berth/endpoints/node", "berth/endpoints/job", true},
		{"berth/endpoints/node", "berth/endpoints/core", false},
		{"berth/endpoints", "berth/endpoints/job", false},
		{"berth/client", "berth/state", true},
		{"berth/client/csi/volumes", "berth/state/statetest", true},
		{"berth/client/store", "berth/structs", false},
		{"berth/scheduler", "github.com/hashicorp/raft", true},
		{"berth/scheduler", "berth/state", false},
		{"berth/server", "github.com/hashicorp/raft", false},
		{"berth/state", "net/http", true},
		{"berth/state/statetest", "os", true},
		{"berth/state", "time", false},
	} {
		if got := separated(c.from, c.to); got != c.want {
			t.Errorf("separated(%s, %s): got %t, want %t", c.from, c.to, got, c.want)
		}
	}
}

// TestState_ReadsNoClock: an entry of the log has its time, so every server makes the same rows of it.
func TestState_ReadsNoClock(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		if !within(p.ImportPath, []string{"berth/state"}) {
			continue
		}
		for _, name := range p.GoFiles {
			checked++
			for _, use := range clockUses(parseFile(t, filepath.Join(p.Dir, name))) {
				t.Errorf("%s: state must not use time.%s", files.Position(use.Pos()), use.Sel.Name)
			}
		}
	}
	if checked == 0 {
		t.Error("no file of state was checked")
	}
}

// clockUses returns the uses of the clock in a file, also those that are no calls.
func clockUses(f *ast.File) []*ast.SelectorExpr {
	var uses []*ast.SelectorExpr
	for n := range ast.Preorder(f) {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(clock, s.Sel.Name) {
			continue
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
			uses = append(uses, s)
		}
	}
	return uses
}

func TestClockUses_FindsUses(t *testing.T) {
	for statement, want := range map[string]int{
		"x := time.Now()":                       1,
		"x := time.Now":                         1,
		"x := time.Since(y) + time.Until(z)":    2,
		"x := time.Unix(0, now).Add(time.Hour)": 0,
		"x := c.Now()":                          0,
	} {
		if got := len(clockUses(parseBody(t, statement))); got != want {
			t.Errorf("%s: got %d uses of the clock, want %d", statement, got, want)
		}
	}
}

// TestPage_DrawsWithoutTheCommandLine: what both show of a thing is in berth/api/show. The actions of the
// page are the commands, with their words.
func TestPage_DrawsWithoutTheCommandLine(t *testing.T) {
	for _, p := range packages(t) {
		if !within(p.ImportPath, []string{"berth/ui"}) || p.ImportPath == "berth/ui/actions" {
			continue
		}
		for _, imp := range p.Imports {
			if within(imp, []string{"berth/cli"}) {
				t.Errorf("%s must not import %s: see berth/api/show", p.ImportPath, imp)
			}
		}
	}
}

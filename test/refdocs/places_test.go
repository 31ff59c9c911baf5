package refdocs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages that list places.
const (
	examplesPage = "CONTRIBUTING.md"
	walksPage    = "docs/architecture.md"
)

// walks holds the most places that a walk may have, by the beginning of its heading.
var walks = map[string]int{
	"A claim,":       20,
	"An attachment,": 8,
	"A fingerprint,": 15,
}

// examples are the additions that have a list of places, by the beginning of their headings.
var examples = []string{"An operation:", "A table:", "An index:", "A field:", "A leader loop:", "A hook:"}

var (
	placeHeading = regexp.MustCompile(`^### (.*)$`)
	placeLine    = regexp.MustCompile("^[0-9]+\\. `([^`]+\\.go)`: (`[^`]+`(?:, `[^`]+`)*) - ")
	numbered     = regexp.MustCompile(`^[0-9]+\. `)
)

// place is a file with identifiers that it declares.
type place struct {
	file  string
	names []string
}

// newPlace makes a place of a file and a list of identifiers in backquotes.
func newPlace(file, list string) place {
	return place{file, strings.Split(strings.ReplaceAll(list, "`", ""), ", ")}
}

// TestPlaces_Exist opens each place of the examples and of the walks.
func TestPlaces_Exist(t *testing.T) {
	added := placesOf(t, examplesPage)
	for _, heading := range examples {
		if len(section(t, added, heading)) == 0 {
			t.Errorf("%q lists no places", heading)
		}
	}
	declared := map[string]map[string]int{}
	for _, sections := range []map[string][]place{added, placesOf(t, walksPage)} {
		for heading, places := range sections {
			for _, p := range places {
				if declared[p.file] == nil {
					declared[p.file] = declarations(t, p.file)
				}
				checkDeclared(t, heading, p, declared[p.file])
			}
		}
	}
}

// checkDeclared checks that the file of a place declares its names. where names the text with the place.
func checkDeclared(t *testing.T, where string, p place, declared map[string]int) {
	t.Helper()
	for _, name := range p.names {
		if declared[name] == 0 {
			t.Errorf("%q: %s declares no %s", where, p.file, name)
		}
	}
}

// mostEdits is the maximum number of edits for an operation that writes, without its handler.
const mostEdits = 6

// TestPlaces_AnOperationTakesFewEdits holds the number of places of the example, and that each is one
// edit: its declarations follow each other.
func TestPlaces_AnOperationTakesFewEdits(t *testing.T) {
	places := section(t, placesOf(t, examplesPage), "An operation:")
	if n := len(places); n > mostEdits {
		t.Errorf("an operation takes %d edits, and may take %d", n, mostEdits)
	}
	for _, p := range places {
		declared := declarations(t, p.file)
		for i, name := range p.names {
			if declared[name] != declared[p.names[0]]+i {
				t.Errorf("%s: %s does not follow the other declarations of its edit", p.file, name)
			}
		}
	}
}

// TestPlaces_WalksAreShort holds the number of places of each walk, and that none returns to a file.
func TestPlaces_WalksAreShort(t *testing.T) {
	sections := placesOf(t, walksPage)
	for heading, most := range walks {
		walk := section(t, sections, heading)
		if len(walk) == 0 || len(walk) > most {
			t.Errorf("%q has %d places, and may have %d", heading, len(walk), most)
		}
		seen := map[string]bool{}
		for _, p := range walk {
			if seen[p.file] {
				t.Errorf("%q returns to %s", heading, p.file)
			}
			seen[p.file] = true
		}
	}
}

// placesOf reads the sections of a page that list places, by heading of the third level.
func placesOf(t *testing.T, page string) map[string][]place {
	t.Helper()
	sections := map[string][]place{}
	heading := ""
	for line := range strings.Lines(readDoc(t, page)) {
		if strings.HasPrefix(line, "## ") {
			heading = ""
		}
		if m := placeHeading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			heading = m[1]
		}
		if heading == "" || !numbered.MatchString(line) {
			continue
		}
		m := placeLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q: this is not `file.go`: `identifier`, ... - text: %s", heading, line)
			continue
		}
		sections[heading] = append(sections[heading], newPlace(m[1], m[2]))
	}
	return sections
}

func section(t *testing.T, sections map[string][]place, heading string) []place {
	t.Helper()
	for h, places := range sections {
		if strings.HasPrefix(h, heading) {
			return places
		}
	}
	t.Errorf("no section %q lists places", heading)
	return nil
}

// declarations returns the names that a file declares at its top level, with their places from 1. The names
// of one declaration have the same place. A method has the name Type.Method.
func declarations(t *testing.T, file string) map[string]int {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	names := map[string]int{}
	for i, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = i + 1
		case *ast.GenDecl:
			for _, s := range d.Specs {
				addSpec(names, s, i+1)
			}
		}
	}
	return names
}

func addSpec(names map[string]int, s ast.Spec, at int) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		names[s.Name.Name] = at
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = at
		}
	}
}

// receiver returns "Type." for a method, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	return typ.(*ast.Ident).Name + "."
}
